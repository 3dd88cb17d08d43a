"""Stand-ins that implement the node's real interfaces: a record in memory, a capability driven by events, a Back that keeps.

They are for tests of the node and of what is built on it; the real record and real commands have tests of their own.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bascule.identity import Caller
from bascule.node.errors import StoreUnavailableError
from bascule.node.record import Closing, Delivery, Durability, Opening
from bascule.node.terms import (
    Call,
    Completed,
    Effect,
    Invocation,
    JsonValue,
    Kind,
    Operation,
    Outcome,
)

OWNER = Caller("owner")

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}


class MemoryRecord:
    """Keeps entries in lists, in the order they were written; can be told to fail."""

    def __init__(self) -> None:
        self.opened: list[tuple[Opening, Durability]] = []
        self.closed: list[tuple[Closing, Durability]] = []
        self.deliveries: list[Delivery] = []
        self.order: list[str] = []
        self.broken = False
        self.ended = False

    async def open(self, opening: Opening, durability: Durability) -> None:
        self._check()
        self.order.append(f"open {opening.operation}")
        self.opened.append((opening, durability))

    async def close(self, closing: Closing, durability: Durability) -> None:
        self._check()
        self.order.append(f"close {closing.outcome}")
        self.closed.append((closing, durability))

    def deliver(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    async def ready(self) -> bool:
        return not self.broken

    async def aclose(self) -> None:
        self.ended = True

    def _check(self) -> None:
        if self.broken:
            raise StoreUnavailableError("The record cannot be written", detail="told to fail")


class MovedClock:
    """Stands still until it is moved."""

    def __init__(self, at: float = 1_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


@dataclass
class KeptBack:
    """Keeps what was said."""

    said: list[tuple[Any, ...]] = field(default_factory=list)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.said.append((progress, total, message))

    async def log(self, level: str, data: JsonValue) -> None:
        self.said.append((level, data))


class Scripted:
    """A capability whose operations do what tests need: echo, wait for an event, fail, answer with anything."""

    category = "scripted"

    def __init__(
        self, *, prefix: str = "", record: MemoryRecord | None = None, operations: Sequence[Operation] = ()
    ) -> None:
        self._operations = tuple(operations) or tuple(
            Operation(prefix + name, f"{name} of the tests", schema, effect, **more)
            for name, schema, effect, more in [
                ("echo", TEXT, Effect.READ, {}),
                ("wait", NOTHING, Effect.READ, {}),
                ("change", TEXT, Effect.WRITE, {}),
                ("destroy", NOTHING, Effect.DESTRUCTIVE, {}),
                ("crash", NOTHING, Effect.READ, {}),
                ("report", NOTHING, Effect.READ, {}),
            ]
        )
        self._record = record
        self.calls: list[Call] = []
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.stopped = asyncio.Event()
        self.answer: Outcome | None = None
        self.stubborn = False
        """Whether a told stop is survived: the work is finished all the same."""

    def operations(self) -> Sequence[Operation]:
        return self._operations

    def can_handle(self, name: str) -> bool:
        return any(operation.name == name for operation in self._operations)

    async def execute(self, call: Call, back: Any) -> Outcome:
        self.calls.append(call)
        if self._record is not None:
            self._record.order.append(f"execute {call.operation.name}")
        self.entered.set()
        match call.operation.name.rpartition(".")[2]:
            case "wait":
                await self._wait()
            case "crash":
                raise RuntimeError("secret text of an exception")
            case "report":
                for step in (1, 2, 3):
                    await back.progress(step, 3, f"step {step}")
                await back.log("info", {"half": "way"})
        return self.answer or Completed(call.arguments.get("text"))

    async def plan(self, call: Call) -> JsonValue:
        return {"would": call.arguments}

    async def _wait(self) -> None:
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            if not self.stubborn:
                raise


def invocation(name: str, arguments: JsonValue = None, *, caller: Caller = OWNER, **more: Any) -> Invocation:
    """An invocation with an id of its own."""
    invocation.last += 1  # type: ignore[attr-defined] # a counter that lives as long as the tests
    given = {} if arguments is None else arguments
    return Invocation(f"id-{invocation.last}", caller, Kind.CALL, name, given, **more)  # type: ignore[attr-defined] # as above


invocation.last = 0  # type: ignore[attr-defined] # as above
