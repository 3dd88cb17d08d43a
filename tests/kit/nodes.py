"""A scripted Node: what each operation answers is a function of the test, what it was asked is kept.

It implements the whole interface of `node.Node`, so that protocol tests need neither registry, policy nor store.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bascule.identity import Caller
from bascule.node.node import Back
from bascule.node.terms import (
    Answer,
    Category,
    Completed,
    Effect,
    Invocation,
    JsonObject,
    Offer,
    Operation,
    Refused,
    Revision,
)

Script = Callable[[Invocation, Back], Awaitable[Answer]]

ANYTHING: JsonObject = {"type": "object"}


def operation(name: str, **other: object) -> Operation:
    """An operation that reads; everything else is said by keyword."""
    given = {"description": f"Do {name}.", "arguments": ANYTHING, "effect": Effect.READ} | other
    return Operation(name=name, **given)  # type: ignore[arg-type] # keywords of the dataclass, checked where it is made


@dataclass
class Gate:
    """An operation that stands still: `entered` when it was reached, on when `release` is set, `dropped` if cancelled."""

    answer: Answer = field(default_factory=lambda: Completed("through"))
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, invocation: Invocation, back: Back) -> Answer:
        self.entered.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.dropped.set()
            raise
        return self.answer


@dataclass
class Receipts:
    """A receipt that remembers every report, so that "exactly once" can be asserted."""

    reports: list[str] = field(default_factory=list)
    told: asyncio.Event = field(default_factory=asyncio.Event)

    def delivered(self) -> None:
        self._note("delivered")

    def undelivered(self, cause: str) -> None:
        self._note(f"undelivered: {cause}")

    def _note(self, report: str) -> None:
        self.reports.append(report)
        self.told.set()


class ScriptedNode:
    """A node of scripted operations; `offer` may be changed while it serves."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.invocations: list[Invocation] = []
        self.set_aside: tuple[tuple[str, str], ...] = ()
        self.broken: Exception | None = None
        """What `offered_to` raises, against its contract."""
        self.watched = asyncio.Event()
        """Set once somebody waits for changes."""
        self._scripts: dict[str, Script] = {}
        self._revision = 1
        self._changed = asyncio.Event()

    def does(self, made: Operation | str, script: Script | Answer) -> None:
        """Offer an operation; `script` is what it does, or the answer it always gives."""
        made = operation(made) if isinstance(made, str) else made
        self.operations.append(made)
        self._scripts[made.name] = script if callable(script) else _always(script)

    def change(self, operations: Sequence[Operation] | None = None) -> None:
        """Offer something else from now on, and say so."""
        if operations is not None:
            self.operations = list(operations)
        self._revision += 1
        before, self._changed = self._changed, asyncio.Event()
        before.set()

    async def offered_to(self, caller: Caller) -> Offer:
        if self.broken is not None:
            raise self.broken
        return Offer(Revision(self._revision), operations=tuple(self.operations), set_aside=self.set_aside)

    async def changes(self, caller: Caller) -> AsyncIterator[Revision]:
        seen = self._revision
        while True:
            changed = self._changed
            if self._revision == seen:
                self.watched.set()
                await changed.wait()
                continue
            seen = self._revision
            yield Revision(seen)

    async def invoke(self, invocation: Invocation, back: Back) -> Answer:
        self.invocations.append(invocation)
        script = self._scripts.get(invocation.name)
        if script is None:
            return Refused(Category.UNSUPPORTED_COMMAND, f"Unknown tool: {invocation.name}")
        return await script(invocation, back)


def _always(answer: Answer) -> Script:
    async def script(invocation: Invocation, back: Back) -> Answer:
        return answer

    return script


async def echo(invocation: Invocation, back: Back) -> Answer:
    """Answer with the arguments."""
    return Completed(invocation.arguments)
