"""A run: the work of one allowed call. It belongs to the node, not to whoever waits for it.

When it may start is left to `slots`, what is written down to `local`; here it is watched, stopped and brought to an end.
"""

import asyncio
import logging
from typing import Final

from bascule.node.capability import Capability
from bascule.node.node import Back
from bascule.node.terms import Call, Category, Cause, Completed, EffectState, Failed, JsonValue, Outcome

PROGRESS_EXTENDS_TO: Final = 10
"""Times its timeout that an operation may run while it keeps reporting progress: long jobs finish, none is endless."""

_log: Final = logging.getLogger("bascule.node")

_WORDS: Final = {
    Cause.CANCELLED: (Category.OTHER, "cancelled"),
    Cause.ABANDONED: (Category.OTHER, "stopped: nobody was waiting for it any more"),
    Cause.DEADLINE: (Category.TIMEOUT, "stopped at its deadline"),
    Cause.SHUTDOWN: (Category.OTHER, "stopped: the controller is shutting down"),
}


class Run:
    """One execution with its deadline. `perform` is awaited once, by the node's own task."""

    def __init__(self, call: Call, capability: Capability, back: Back, *, remaining: float | None) -> None:
        self._call, self._capability = call, capability
        self._back = _RunBack(back, self)
        self._patience = remaining
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Outcome] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._entered = self._until = 0.0
        self.cause: Cause | None = None
        """Why it was told to stop; the first cause wins. None while nobody has."""

    def __repr__(self) -> str:
        state = "waiting" if self._task is None else "done" if self._task.done() else "running"
        return f"<Run {self._call.id} of {self._call.operation.name}: {self.cause or state}>"

    async def perform(self) -> Outcome:
        """Execute, or plan where the call is a preview, and return how it ended. Never raises."""
        if self.cause is not None:
            return self._stopped(EffectState.NONE)
        self._entered = self._loop.time()
        self._watch(self._entered + self._call.operation.timeout)
        self._task = self._loop.create_task(self._execute())
        try:
            return await self._task
        except asyncio.CancelledError:
            # Told to stop before its first step: nothing was entered.
            return self._stopped(EffectState.NONE)
        finally:
            self._back.end()
            if self._timer is not None:
                self._timer.cancel()

    def stop(self, cause: Cause) -> None:
        """End the work because of `cause`, unless an earlier cause already does."""
        if self.cause is not None:
            return
        self.cause = cause
        if self._task is not None:
            self._task.cancel()

    def extend(self) -> None:
        """Progress was made: the operation's own timeout starts anew, up to its cap and never past the caller's."""
        timeout = self._call.operation.timeout
        self._until = self._bounded(min(self._loop.time() + timeout, self._entered + PROGRESS_EXTENDS_TO * timeout))

    def detach(self) -> None:
        """Nobody listens any more: what is still reported goes nowhere."""
        self._back.end()

    async def _execute(self) -> Outcome:
        try:
            if self._call.dry_run:
                return Completed(await self._capability.plan(self._call), applied=False)
            return await self._capability.execute(self._call, self._back)
        except asyncio.CancelledError:
            return self._stopped(EffectState.NONE if self._call.dry_run else EffectState.PARTIAL)
        except Exception:  # noqa: BLE001 - a capability may raise anything; its text stays in the log
            _log.exception("operation %s failed in run %s", self._call.operation.name, self._call.id)
            return Failed(
                Category.CAPABILITY_FAILURE,
                f"{self._call.operation.name} failed inside the controller; its log says why (operation {self._call.id})",
                detail="the capability raised an exception",
            )

    def _stopped(self, effect: EffectState) -> Failed:
        cause = self.cause or Cause.SHUTDOWN
        category, words = _WORDS[cause]
        suffix = "; nothing was done" if effect is EffectState.NONE else "; its effect may be partial"
        message = f"{self._call.operation.name} was {words}{suffix}"
        return Failed(category, message, cause=cause, effect=effect)

    def _watch(self, until: float) -> None:
        self._until = self._bounded(until)
        self._timer = self._loop.call_at(self._until, self._expire)

    def _bounded(self, until: float) -> float:
        return until if self._patience is None else min(until, self._entered + self._patience)

    def _expire(self) -> None:
        # Progress only moves `_until`; the timer looks again instead of being set anew for every report.
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._expire)
        else:
            self.stop(Cause.DEADLINE)


class _RunBack:
    """The caller's Back while it listens; silence afterwards."""

    def __init__(self, back: Back, run: Run) -> None:
        self._back: Back | None = back
        self._run = run

    def end(self) -> None:
        self._back = None

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._run.extend()
        if self._back is not None:
            await self._back.progress(progress, total, message)

    async def log(self, level: str, data: JsonValue) -> None:
        if self._back is not None:
            await self._back.log(level, data)
