"""Runs one command to its end: output within a cap, every process ended, whatever happens.

Which command, and what its output means, is left to `declared`; how processes are found and ended to `platform`.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule.capabilities.output import Capture, Streams
from bascule.platform.processes import TERM_TO_KILL, Command

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


async def run(plan: Plan) -> Ended:
    """Run `plan` until the command and everything it started is gone.

    When cancelled, all of it is ended first: TERM, `term_to_kill` seconds, KILL.

    Raises:
        OSError: it could not be started.
    """
    started = time.perf_counter()
    capture = Capture(plan.output_cap)
    command = Command(plan.argv, program=plan.program, env=plan.env, cwd=plan.cwd)
    streams = Streams(capture)
    try:
        await streams.attach(command)
        exit_code = await command.wait()
    except asyncio.CancelledError:
        await _ended_in_full(command, plan.term_to_kill)
        raise
    else:
        leftovers = await _ended_in_full(command, plan.term_to_kill)
        await streams.drained(LAST_WORDS)
    finally:
        streams.close()
    return Ended(exit_code, capture, time.perf_counter() - started, leftovers)


async def _ended_in_full(command: Command, grace: float) -> bool:
    """End the family without being interrupted half-way: a cancellation that comes meanwhile is passed on afterwards."""
    ending = asyncio.ensure_future(command.end(grace))
    interrupted: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted
    return ending.result()


def child_environment(environ: Mapping[str, str], named: Sequence[str]) -> dict[str, str]:
    """Return what a child gets of `environ`: the basics where they are set, and the variables it was promised."""
    return {name: environ[name] for name in (*BASICS, *named) if name in environ}


BASICS: Final = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What a program needs to find others, its user, its language, its time and a place for files; never a secret."""
