"""Starts a command in its own session, knows every process that came from it, and ends them all.

What is run and how long is left to `capabilities`. On Linux nothing escapes that the kernel lets us see:

1. The controller is a child subreaper: what loses its parent comes to us, not to init.
2. So is each command itself, while it lives: its daemons come to it, so its family is the tree below it.
3. When the command is gone, its orphans come to us. They are told from everything else that may come to us (another
   command's orphans, a plug-in's processes, whatever a container's first process adopts) by a mark that each command
   is given and its descendants inherit: the hard limit on file locks, which Linux has shown but not used since 2.4.25
   (getrlimit(2), RLIMIT_LOCKS). Where limits cannot carry it, an orphan of ours in a session that is not ours is taken.
4. When the controller dies without having ended a command, the kernel sends that command TERM. What the command started
   itself is not reached then, nor is a command that gained rights at its start (prctl(2), PR_SET_PDEATHSIG).

A command is started on a thread that lives as long as the controller, its main one: point 4 counts that thread's death.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from bascule.platform import proc

TERM_TO_KILL: Final = 5.0
"""Seconds between asking a process to end and ending it."""

KILL_PATIENCE: Final = 2.0
"""Seconds a killed process may take to disappear; one in uninterruptible sleep can take longer and is named in the log."""

_LOOK: Final = 0.01
"""Seconds until the next look at the process table while ending, at first: orphans raise no event."""

_LONGEST_LOOK: Final = 0.1
"""Seconds between looks at processes that take their time; a look costs a millisecond or more of the whole loop."""

_SET_PDEATHSIG: Final = 1
_SET_CHILD_SUBREAPER: Final = 36
"""Both from linux/prctl.h."""

_RLIMIT_LOCKS: Final = 10
"""From asm-generic/resource.h."""

_MOST_LOCKS: Final = 2**62
"""Marks are below this: a limit, read as a signed number, stays one."""

_LEAST_MARKS: Final = 2**32
"""Marks are drawn at random, so there must be enough of them to never meet."""

_log: Final = logging.getLogger("bascule.platform")

_leaders: Final[set[int]] = set()
"""Commands started here and not yet ended."""

_LINUX: Final = sys.platform == "linux"
_libc: Final[Any] = ctypes.CDLL(None, use_errno=True) if _LINUX else None
_prctl: Final[Any] = _libc.prctl if _LINUX else None
_setrlimit: Final[Any] = getattr(_libc, "setrlimit64", getattr(_libc, "setrlimit", None))
"""The one whose limits have 64 bits: musl has it by its plain name."""


def missing_guarantees() -> tuple[str, ...]:
    """Return what this system cannot give, in words for the operator; empty on Linux."""
    if _LINUX:
        return ()
    return ("processes that leave their command's process group are not ended with it on this system",)


def become_subreaper() -> None:
    """Let orphans of commands come to this process (step 1). No effect outside Linux."""
    if _LINUX and _prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        _log.warning("this process could not become a child subreaper; daemons of commands may outlive them")


def _new_mark() -> int | None:
    """Return a mark that no other command has, or None where limits cannot carry one."""
    if sys.platform != "linux":
        return None
    import resource

    hard = resource.getrlimit(_RLIMIT_LOCKS)[1]
    most = _MOST_LOCKS if hard == resource.RLIM_INFINITY else hard  # a controller may itself run in a marked command
    return secrets.randbelow(most) if most >= _LEAST_MARKS else None


def _in_child(limit: Any) -> None:
    # Between fork and exec: system calls through bindings made beforehand, nothing that could take a lock.
    _prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # 2
    if limit is not None:
        _setrlimit(_RLIMIT_LOCKS, limit)  # 3
    _prctl(_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)  # 4


class Command:
    """One started command and its family."""

    def __init__(self, argv: Sequence[str], *, program: str, env: Mapping[str, str], cwd: Path | None) -> None:
        """Start `program` as `argv` in its own session, with exactly `env` and no standard input.

        Raises:
            OSError: it could not be started.
        """
        mark = _new_mark()
        limit = None if mark is None else (ctypes.c_uint64 * 2)(mark, mark)
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
            preexec_fn=partial(_in_child, limit) if _LINUX else None,  # noqa: PLW1509 - system calls alone, see there
        )
        _leaders.add(self._popen.pid)
        try:
            row = proc.one(self._popen.pid)
            self._mark = mark if mark is not None and proc.file_locks(self._popen.pid) == mark else None
        except OSError:
            self._undo()
            raise
        self._started = row.started if row else 0
        self._family: dict[int, int] = {self._popen.pid: self._started}
        self._sessions = {self._popen.pid}
        self._seen_as_group = False
        """Whether there is no process table, so that the command's group is all we know of it."""

    def __repr__(self) -> str:
        state = "running" if self._popen.returncode is None else f"ended with {self._popen.returncode}"
        return f"<Command {self._popen.pid}: {state}>"

    def _undo(self) -> None:
        """End a command that was only just started and cannot be watched."""
        self._popen.kill()
        self._popen.wait()
        _leaders.discard(self._popen.pid)
        for pipe in self.pipes:
            pipe.close()

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
        pause = _LOOK
        while left := self._living():
            fresh = left - signalled
            if fresh:
                self._signal(fresh, again)
                signalled |= fresh
            if loop.time() >= until:
                return False
            await asyncio.sleep(min(pause, max(0.0, until - loop.time())))
            pause = min(2 * pause, _LONGEST_LOOK)
        return True

    def _living(self) -> set[int]:
        """Update the family from the process table and return the pids of those that live."""
        ended = self._popen.poll() is not None
        try:
            rows = proc.table()
            self._seen_as_group = not rows
            if not rows:
                return self._living_without_table(ended=ended)
            self._grow(rows, ended=ended)
        except OSError:
            # Nothing is known: to say that all have ended would let them go on.
            return {self._popen.pid}
        return {pid for pid in list(self._family) if self._lives(pid, rows)}

    def _lives(self, pid: int, rows: Mapping[int, proc.Process]) -> bool:
        row = rows.get(pid)
        if row is None or row.started != self._family[pid]:
            del self._family[pid]
            return False
        if not row.dead or pid == self._popen.pid:
            return not row.dead
        if row.parent == os.getpid():
            _reap(pid)
            return False
        # The table is no snapshot: a parent that died while it was read has left its dead to us by the next look.
        parent = rows.get(row.parent)
        return parent is None or parent.dead

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
        if row.parent != os.getpid():
            return False
        if self._mark is not None:  # 3
            return proc.file_locks(row.pid) == self._mark
        return ended and row.session != our_session

    def _living_without_table(self, *, ended: bool) -> set[int]:
        if ended:  # not before: its exit code is not ours to take
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-self._popen.pid, os.WNOHANG)[0]:
                    pass
        try:
            os.killpg(self._popen.pid, 0)
        except (ProcessLookupError, PermissionError):
            return set()
        return {self._popen.pid}

    def _signal(self, pids: set[int], what: signal.Signals) -> None:
        if self._popen.returncode is None or self._seen_as_group:
            # The whole group at once, forks in flight included. Once the leader is reaped and its group empty, the number
            # may be another's: it is used then only where there is nothing else, just after the group was seen to live.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, what)
        for pid in pids - {self._popen.pid}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, what)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
