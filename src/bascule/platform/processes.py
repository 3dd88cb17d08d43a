"""Starts a command in its own session, knows every process that came from it, and ends them all.

What is run and how long is left to `capabilities`. On Linux nothing escapes that the kernel lets us see:

1. The controller is a child subreaper: what loses its parent comes to us, not to init.
2. So is each command itself, while it lives: its daemons come to it, so its family is the tree below it.
3. When the command is gone, its orphans come to us. They are told from our own children by their session: a child of
   ours shares our session or is a command we started, an orphan does neither.

Plug-ins that start processes in sessions of their own must use this module, or point 3 takes them for orphans.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from bascule.platform import proc

TERM_TO_KILL: Final = 5.0
"""Seconds between asking a process to end and ending it."""

KILL_PATIENCE: Final = 2.0
"""Seconds a killed process may take to disappear; one in uninterruptible sleep can take longer and is named in the log."""

_LOOK: Final = 0.01
"""Seconds between looks at the process table while ending: orphans raise no event."""

_SET_CHILD_SUBREAPER: Final = 36
"""From linux/prctl.h."""

_log: Final = logging.getLogger("bascule.platform")

_leaders: Final[set[int]] = set()
"""Commands started here and not yet ended."""

_LINUX: Final = sys.platform == "linux"
_prctl: Final[Any] = ctypes.CDLL(None, use_errno=True).prctl if _LINUX else None


def missing_guarantees() -> tuple[str, ...]:
    """Return what this system cannot give, in words for the operator; empty on Linux."""
    if _LINUX:
        return ()
    return ("processes that leave their command's process group are not ended with it on this system",)


def become_subreaper() -> None:
    """Let orphans of commands come to this process (step 1). No effect outside Linux."""
    if _LINUX and _prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        _log.warning("this process could not become a child subreaper; daemons of commands may outlive them")


def _in_child() -> None:
    # Between fork and exec: one system call through a binding made beforehand, nothing that could take a lock (step 2).
    _prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Command:
    """One started command and its family."""

    def __init__(self, argv: Sequence[str], *, program: str, env: Mapping[str, str], cwd: Path | None) -> None:
        """Start `program` as `argv` in its own session, with exactly `env` and no standard input.

        Raises:
            OSError: it could not be started.
        """
        self._popen = subprocess.Popen(
            list(argv),
            executable=program,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            # The child is only made a subreaper: see _in_child.
            preexec_fn=_in_child if _LINUX else None,  # noqa: PLW1509 - one system call, see there
        )
        _leaders.add(self._popen.pid)
        row = proc.one(self._popen.pid)
        self._started = row.started if row else 0
        self._family: dict[int, int] = {self._popen.pid: self._started}
        self._sessions = {self._popen.pid}

    def __repr__(self) -> str:
        state = "running" if self._popen.returncode is None else f"ended with {self._popen.returncode}"
        return f"<Command {self._popen.pid}: {state}>"

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Its stdout and stderr, to be read and closed by whoever started it."""
        out, err = self._popen.stdout, self._popen.stderr
        if out is None or err is None:
            raise RuntimeError("a command is always started with pipes")
        return out, err

    async def wait(self) -> int:
        """Return the exit code once the command itself is gone; a signal is its negative number."""
        try:
            descriptor = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):
            return await asyncio.to_thread(self._popen.wait)
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(descriptor, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return self._popen.wait()

    async def end(self, grace: float = TERM_TO_KILL) -> bool:
        """End whatever is left of the family: TERM, `grace` seconds, KILL. Return whether anything was left.

        To be awaited once, also after a command that ended by itself. Shield it where a cancellation may come.
        """
        try:
            left = self._living()
            if not left:
                return False
            self._signal(left, signal.SIGTERM)
            if not await self._gone_within(grace, again=signal.SIGTERM):
                self._signal(self._living(), signal.SIGKILL)
                if not await self._gone_within(KILL_PATIENCE, again=signal.SIGKILL):
                    _log.error("processes %s of a command could not be killed", sorted(self._living()))
            return True
        finally:
            _leaders.discard(self._popen.pid)
            self._popen.poll()  # a leader seen as a zombie is still to be reaped

    async def _gone_within(self, seconds: float, *, again: signal.Signals) -> bool:
        """Whether the family ended in time; members that show up meanwhile are signalled as well."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        signalled = set(self._family)
        while left := self._living():
            fresh = left - signalled
            if fresh:
                self._signal(fresh, again)
                signalled |= fresh
            if loop.time() >= until:
                return False
            await asyncio.sleep(_LOOK)
        return True

    def _living(self) -> set[int]:
        """Update the family from the process table and return the pids of those that live."""
        ended = self._popen.poll() is not None
        rows = proc.table()
        if not rows:
            return self._living_without_table(ended=ended)
        self._grow(rows, ended=ended)
        living = set()
        for pid, started in list(self._family.items()):
            row = rows.get(pid)
            if row is None or row.started != started:
                del self._family[pid]
            elif not row.dead:
                living.add(pid)
            elif pid != self._popen.pid and row.parent == os.getpid():
                _reap(pid)
        return living

    def _grow(self, rows: Mapping[int, proc.Process], *, ended: bool) -> None:
        ours = os.getsid(0)
        grew = True
        while grew:
            grew = False
            for row in rows.values():
                if row.pid not in self._family and self._belongs(row, ended=ended, our_session=ours):
                    self._family[row.pid] = row.started
                    self._sessions.add(row.session)
                    grew = True

    def _belongs(self, row: proc.Process, *, ended: bool, our_session: int) -> bool:
        if row.started < self._started or row.pid in _leaders:
            return False
        if row.parent in self._family or row.session in self._sessions:
            return True
        return ended and row.parent == os.getpid() and row.session != our_session  # step 3

    def _living_without_table(self, *, ended: bool) -> set[int]:
        try:
            os.killpg(self._popen.pid, 0)
        except (ProcessLookupError, PermissionError):
            return set()
        return {self._popen.pid} if not ended else set()

    def _signal(self, pids: set[int], what: signal.Signals) -> None:
        if self._popen.returncode is None:
            # The whole group at once, forks in flight included; once the leader is reaped its number may be another's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, what)
        for pid in pids - {self._popen.pid}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, what)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
