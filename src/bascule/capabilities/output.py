"""Reads a command's two streams at once, keeps as much as its cap allows, and counts the rest.

The command is never left writing into a full pipe; when it ends is left to `commands`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from bascule.platform.processes import Command


@dataclass(slots=True)
class Capture:
    """What was kept, and how much there was."""

    cap: int
    kept: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    seen: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})

    @property
    def truncated(self) -> bool:
        """Whether anything is missing."""
        return any(self.seen[name] > len(self.kept[name]) for name in self.kept)

    def take(self, name: str, data: bytes) -> None:
        """Keep what still fits; both streams share the cap."""
        self.seen[name] += len(data)
        room = self.cap - sum(len(kept) for kept in self.kept.values())
        self.kept[name] += data[: max(0, room)]

    def text(self, name: str, secrets: Sequence[str] = ()) -> str:
        """Return a stream as text, with a marker and its true size where it was cut.

        Where the cut goes through one of `secrets`, the half before it is left out too: by itself it is no longer known
        to be one. Masking whole ones is left to whoever shows the text.
        """
        kept, seen = bytes(self.kept[name]), self.seen[name]
        if seen == len(kept):
            return kept.decode("utf-8", "replace")
        shown = kept[: len(kept) - _half_secret(kept, secrets)]
        return f"{shown.decode('utf-8', 'replace')}\n[cut: {len(shown)} of {seen} bytes shown]"


def _half_secret(kept: bytes, secrets: Sequence[str]) -> int:
    """Return how many bytes at the end of `kept` may be the beginning of a secret."""
    encoded = [secret.encode("utf-8", "surrogateescape") for secret in secrets]
    lengths = [size for secret in encoded for size in range(1, len(secret)) if kept.endswith(secret[:size])]
    return max(lengths, default=0)


class _Reader(asyncio.Protocol):
    def __init__(self, name: str, capture: Capture, ended: asyncio.Event) -> None:
        self._name, self._capture, self._ended = name, capture, ended

    def data_received(self, data: bytes) -> None:
        self._capture.take(self._name, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()


class Streams:
    """The open pipes of a command."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._transports: list[asyncio.ReadTransport] = []
        self._ends: list[asyncio.Event] = []

    async def attach(self, command: Command) -> None:
        """Start reading."""
        waiting = list(zip(("stdout", "stderr"), command.pipes, strict=True))
        try:
            while waiting:
                await self._connect(*waiting[0])
                del waiting[0]
        finally:
            for _, pipe in waiting:  # what no transport closes
                pipe.close()

    async def _connect(self, name: str, pipe: IO[bytes]) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: _Reader(name, self._capture, ended), pipe)
        self._transports.append(transport)
        self._ends.append(ended)

    async def drained(self, within: float) -> None:
        """Return when both streams have ended, or after `within` seconds: whoever holds one open is not ours to await."""
        try:
            async with asyncio.timeout(within):
                for ended in self._ends:
                    await ended.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """Close the pipes."""
        for transport in self._transports:
            transport.close()
