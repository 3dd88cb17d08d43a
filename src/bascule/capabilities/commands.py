"""Runs one command to its end: output within a cap, every process ended, whatever happens.

Which command, and what its output means, is left to `declared`; how processes are found and ended to `platform`.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from bascule.capabilities.output import Capture, Streams
from bascule.platform.processes import TERM_TO_KILL, Command

T = TypeVar("T")

LAST_WORDS: Final = 1.0
"""Seconds for output still in the pipes once every process of a command is gone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Exactly what is run."""

    argv: tuple[str, ...]
    program: str
    """The file that is executed: absolute, found beforehand."""
    env: Mapping[str, str]
    cwd: Path | None
    output_cap: int
    """Bytes kept of both streams together."""
    term_to_kill: float = TERM_TO_KILL
    """Seconds between TERM and KILL."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How it went."""

    exit_code: int
    """Negative for a signal, as `subprocess` has it."""
    capture: Capture
    seconds: float
    leftovers: bool
    """Whether processes were still running when the command itself had ended; they were ended."""


class NotStartedError(Exception):
    """The system would not start the command, so nothing was done; the text says why and is fit for a peer."""


async def run(plan: Plan) -> Ended:
    """Run `plan` until the command and everything it started is gone.

    When cancelled while the command runs, all of it is ended first: TERM, `term_to_kill` seconds, KILL. A cancellation
    that comes once the command itself has ended changes nothing: what is finished is reported as finished.

    Raises:
        NotStartedError: it could not be started.
    """
    started = time.perf_counter()
    capture = Capture(plan.output_cap)
    command = _started(plan)
    streams = Streams(capture)
    try:
        await streams.attach(command)
        exit_code = await command.wait()
    except BaseException:
        # Not a cancellation alone: whatever went wrong here, nobody would end the command later.
        await _in_full(command.end(plan.term_to_kill))
        raise
    else:
        leftovers = await _in_full(command.end(plan.term_to_kill))
        await _in_full(streams.drained(LAST_WORDS))
    finally:
        streams.close()
    return Ended(exit_code, capture, time.perf_counter() - started, leftovers)


def _started(plan: Plan) -> Command:
    try:
        return Command(plan.argv, program=plan.program, env=plan.env, cwd=plan.cwd)
    except OSError as error:
        raise NotStartedError(os.strerror(error.errno or 0)) from error
    except ValueError:
        # A character that this system's encoding of arguments does not have; the text of the error would show the value.
        raise NotStartedError("an argument or variable cannot be written in this system's encoding") from None


async def _in_full(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` gives, without being interrupted half-way: its time is bounded by itself."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


def child_environment(environ: Mapping[str, str], named: Sequence[str]) -> dict[str, str]:
    """Return what a child gets of `environ`: the basics where they are set, and the variables it was promised."""
    return {name: environ[name] for name in (*BASICS, *named) if name in environ}


BASICS: Final = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What a program needs to find others, its user, its language, its time and a place for files; never a secret."""
