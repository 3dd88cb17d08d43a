"""The two descriptors of a stdio server: taken away from everybody else, read in pieces, written one line at a time.

What is read and written is left to `stdio`. Pipes, sockets and terminals are read by the loop; files, which a loop
cannot watch, by a thread.
"""

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from typing import IO, Final

PIECE: Final = 65_536
"""Bytes read at once."""


def take(stdin: int = 0, stdout: int = 1) -> tuple[IO[bytes], IO[bytes]]:
    """Return private copies of both; afterwards the originals lead to nothing and to stderr.

    A stray print of any library, or of a child, cannot reach the client any more.
    """
    reading, writing = os.dup(stdin), os.dup(stdout)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, stdin)
    os.close(nothing)
    os.dup2(2, stdout)
    sys.stdout = sys.stderr
    return os.fdopen(reading, "rb", buffering=0), os.fdopen(writing, "wb", buffering=0)


def _watchable(pipe: IO[bytes]) -> bool:
    """Whether the loop can watch it. It must not be tried: uvloop ends the whole process over a file."""
    mode = os.fstat(pipe.fileno()).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or pipe.isatty())


class _Mode:
    """Remembers how a descriptor waited, and gives it back so: others, such as a shell, go on with the same one.

    A loop makes it non-blocking for everybody who has it. The copy kept here outlives the loop's own.
    """

    def __init__(self) -> None:
        self._copy: int | None = None
        self._blocking = True

    def keep(self, pipe: IO[bytes]) -> None:
        self._copy = os.dup(pipe.fileno())
        self._blocking = os.get_blocking(self._copy)

    def restore(self) -> None:
        if self._copy is not None:
            os.set_blocking(self._copy, self._blocking)
            os.close(self._copy)
            self._copy = None


class Incoming(asyncio.Protocol):
    """Hands on what arrives, and its end; `pause` holds the peer back."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._transport: asyncio.ReadTransport | None = None
        self._mode = _Mode()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self.ended = asyncio.Event()

    async def attach(self, pipe: IO[bytes]) -> None:
        """Start reading."""
        if _watchable(pipe):
            self._mode.keep(pipe)
            self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, pipe)
        else:
            self._reader = asyncio.ensure_future(self._read(pipe))

    def data_received(self, data: bytes) -> None:
        self._heard(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def pause(self) -> None:
        """Take no more for now."""
        self._may_read.clear()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Take more again."""
        self._may_read.set()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Stop reading."""
        self._mode.restore()
        if self._transport is not None:
            self._transport.close()
        elif not self.ended.is_set():
            self._reader.cancel()

    async def _read(self, pipe: IO[bytes]) -> None:
        while True:
            await self._may_read.wait()
            data = await asyncio.to_thread(pipe.read, PIECE)
            if not data:
                break
            self._heard(data)
        self.ended.set()


class Outgoing(asyncio.BaseProtocol):
    """Writes whole lines in order; `write` returns when the line's last byte was handed to the pipe."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._pipe: IO[bytes] | None = None
        self._mode = _Mode()
        self._turn = asyncio.Lock()
        self._drained = asyncio.Event()
        self._drained.set()
        self.broken = asyncio.Event()

    async def attach(self, pipe: IO[bytes]) -> None:
        """Be ready to write."""
        if _watchable(pipe):
            self._mode.keep(pipe)
            self._transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: self, pipe)
            self._transport.set_write_buffer_limits(high=0)
        else:
            self._pipe = pipe

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.broken.set()
        self._drained.set()

    async def write(self, line: bytes) -> bool:
        """Write one line; return whether all of it was handed over."""
        async with self._turn:
            if self.broken.is_set():
                return False
            if self._pipe is not None:
                return await asyncio.to_thread(self._write_all, line + b"\n")
            if self._transport is None:
                return False
            self._transport.write(line + b"\n")
            await self._drained.wait()
            return not self.broken.is_set()

    def close(self) -> None:
        """Let go of the pipe."""
        self._mode.restore()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()

    def _write_all(self, data: bytes) -> bool:
        assert self._pipe is not None
        view = memoryview(data)
        try:
            while view:
                view = view[self._pipe.write(view) :]
        except OSError:
            self.broken.set()
            return False
        return True
