"""LocalNode: everything this machine offers, behind one way in: see, read, decide, ask, record, execute, close.

What exists is left to `registry`, what is allowed to `policy`, how work is stopped to `runs`, where it is kept to a store.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from bascule import wire
from bascule.identity import Caller
from bascule.node import controls, policy
from bascule.node.clock import Clock, SystemClock
from bascule.node.errors import StoreUnavailableError
from bascule.node.ledger import Ledger
from bascule.node.node import Back
from bascule.node.record import Durability, RecordStore
from bascule.node.registry import Entry, Registry
from bascule.node.rules import Rules
from bascule.node.runs import Run
from bascule.node.slots import NoSlotError, SlotLimits, WorkSlots
from bascule.node.terms import (
    Allow,
    Answer,
    Ask,
    Call,
    Category,
    Cause,
    Completed,
    Deny,
    Effect,
    EffectState,
    Failed,
    Fault,
    Invocation,
    Kind,
    NeedsAnswer,
    Offer,
    Operation,
    Outcome,
    Refused,
    Revision,
    Slots,
)

METHOD_NOT_FOUND: Final = -32601
"""JSON-RPC 2.0, section 5.1: for kinds this node offers nothing of."""

MAX_SHOWN_NAME: Final = 64
"""Characters of an unknown name that are said back: a caller's own text is never echoed at length."""

MAX_KEPT_OFFERS: Final = 64
"""Callers whose offer is kept ready; beyond it offers are worked out again, never wrongly."""

TERM_TO_END: Final = 8.0
"""Seconds of a drain kept back for ending work: TERM, five seconds, KILL, and writing it down."""

_log: Final = logging.getLogger("bascule.node")


class LocalNode:
    """A node that executes on this machine. Lives on one event loop; `aclose` ends everything it started."""

    def __init__(
        self,
        registry: Registry,
        rules: Rules,
        record: RecordStore,
        *,
        clock: Clock | None = None,
        slots: SlotLimits | None = None,
    ) -> None:
        self._registry, self._rules = registry, rules
        self._record = record
        self._ledger = Ledger(record, clock or SystemClock())
        self._slots = WorkSlots(slots)
        self._offers: dict[Caller, Offer] = {}
        self._runs: dict[asyncio.Task[Outcome], Run] = {}
        self._closing = False

    def __repr__(self) -> str:
        return f"<LocalNode: {self._registry!r}, {len(self._runs)} runs{', closing' if self._closing else ''}>"

    def set_rules(self, rules: Rules) -> None:
        """Put new rules in force for every later decision, and say that offers changed."""
        self._rules = rules
        self._registry.touch()

    async def ready(self) -> bool:
        """Whether a call would be taken and kept now."""
        return not self._closing and await self._record.ready()

    async def offered_to(self, caller: Caller) -> Offer:
        """Return what `caller` may see; worked out once per caller and revision."""
        kept = self._offers.get(caller)
        if kept is not None and kept.revision == self._registry.revision:
            return kept
        if len(self._offers) >= MAX_KEPT_OFFERS:
            self._offers.clear()
        seen = [
            e.offered for e in self._registry.entries if isinstance(policy.visible(self._rules, e.operation), Allow)
        ]
        offer = Offer(self._registry.revision, operations=tuple(seen))
        self._offers[caller] = offer
        return offer

    async def changes(self, caller: Caller) -> AsyncIterator[Revision]:
        """Yield a revision each time something that shapes the offer to `caller` changed."""
        async for revision in self._registry.changes():
            yield revision

    async def invoke(self, invocation: Invocation, back: Back) -> Answer:
        """See, read, decide, ask, record, execute, close (architecture, "The way of one call").

        1. See: what no rule shows is unknown, before its arguments are looked at.
        2. Read the arguments strictly.
        3. Decide, purely.
        4. Record what will be done; where that cannot be kept, nothing is done.
        5. Execute, in a task of the node's own; a caller that leaves does not take it along half-way.
        """
        if invocation.kind is not Kind.CALL:
            return Fault(METHOD_NOT_FOUND, "Method not found")
        if self._closing:
            return Refused(Category.NODE_BUSY, "The controller is shutting down; call again when it is back")
        entry = self._registry.find(invocation.name)  # 1
        if entry is None or not isinstance(policy.visible(self._rules, entry.operation), Allow):
            return await self._refuse(invocation, None, unknown(invocation.name))
        call = read(entry, invocation)  # 2
        if isinstance(call, Refused):
            return await self._refuse(invocation, entry.operation, call)
        verdict = policy.decide(self._rules, call)  # 3
        match verdict:
            case Deny(reason, category, detail):
                return await self._refuse(invocation, entry.operation, Refused(category, reason, detail or reason))
            case Ask(question, reason):
                # The questions of the next issue put an id and a way to answer here; until then nobody can say yes.
                pending = NeedsAnswer(f"{question}: a person on the controller must approve it first.", detail=reason)
                return await self._refuse(invocation, entry.operation, pending)
            case Allow(reason):
                return await self._attach(entry, call, reason, invocation, back)

    async def _attach(self, entry: Entry, call: Call, reason: str, invocation: Invocation, back: Back) -> Answer:
        run = Run(call, entry.capability, back, remaining=invocation.remaining)
        task = asyncio.get_running_loop().create_task(self._perform(run, call, reason, invocation))
        self._runs[task] = run
        task.add_done_callback(self._runs.pop)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The request ends at once; the work is told why and comes to its end in the background, slot in hand.
            run.detach()
            run.stop(invocation.if_dropped)
            task.add_done_callback(lambda done: _undelivered(done, invocation.if_dropped))
            raise

    async def _perform(self, run: Run, call: Call, reason: str, invocation: Invocation) -> Outcome:
        """Record, execute, close. Runs in its own task and never raises."""
        durability = _durability(call)
        try:
            await self._ledger.open(invocation, call.operation, "allow", reason, call.arguments, durability)  # 4
        except StoreUnavailableError as error:
            _log.error("nothing was executed: %s (%s)", error, error.detail)
            return _store_unavailable()
        outcome = await self._execute(run, call)  # 5
        return await self._ledger.close(call.id, outcome, durability)

    async def _execute(self, run: Run, call: Call) -> Outcome:
        kind = Slots.INTERNAL if call.dry_run else call.operation.slots
        try:
            async with self._slots.held(kind, call.caller.name):
                return _checked(call, await run.perform())
        except NoSlotError:
            return Refused(Category.NODE_BUSY, "The controller is busy; call again in a moment", "no work slot")

    async def _refuse(
        self, invocation: Invocation, operation: Operation | None, refusal: Refused | NeedsAnswer
    ) -> Answer:
        verdict = "ask" if isinstance(refusal, NeedsAnswer) else "deny"
        try:
            await self._ledger.open(
                invocation, operation, verdict, refusal.detail or refusal.message, None, Durability.SOON
            )
        except StoreUnavailableError as error:
            _log.error("a refusal could not be recorded: %s (%s)", error, error.detail)
            return refusal if operation is None else _store_unavailable()
        return await self._ledger.close(invocation.id, refusal, Durability.SOON)

    async def aclose(self, budget: float = 20.0) -> None:
        """Drain, then close the record.

        Args:
            budget: seconds for the running work.
        """
        await self.drain(budget)
        await self._record.aclose()

    async def drain(self, budget: float) -> None:
        """Take no new work, give running work what the budget allows, end the rest. The record stays open for receipts.

        Args:
            budget: seconds for all of it.
        """
        self._closing = True
        running = set(self._runs)
        if running:
            await asyncio.wait(running, timeout=max(0.0, budget - TERM_TO_END))
        self.stop_all(Cause.SHUTDOWN)
        if self._runs:
            await asyncio.wait(set(self._runs))

    def stop_all(self, cause: Cause) -> None:
        """Tell everything that runs to stop, without waiting."""
        for run in list(self._runs.values()):
            run.stop(cause)


def unknown(name: str) -> Refused:
    """The one answer for what does not exist, is hidden, or is not allowed: whoever asks learns nothing from it."""
    shown = "".join(character if character.isprintable() else f"\\u{{{ord(character):X}}}" for character in name)
    return Refused(
        Category.UNSUPPORTED_COMMAND, f"Unknown tool: {shown[:MAX_SHOWN_NAME]}", "unknown, hidden or not allowed"
    )


def read(entry: Entry, invocation: Invocation) -> Call | Refused:
    """Read the arguments strictly: they fit the schema whole, or nothing happens."""
    arguments = invocation.arguments
    if not isinstance(arguments, dict):
        return Refused(Category.INVALID_REQUEST, "The arguments do not fit: /: not a JSON object (rule: type)")
    violations = entry.schema.violations(arguments)
    if violations:
        told = "; ".join(str(violation) for violation in violations)
        return Refused(Category.INVALID_REQUEST, f"The arguments do not fit: {told}", "arguments do not fit the schema")
    own, dry_run, confirm = controls.split(entry.operation, entry.schema.completed(arguments))
    return Call(invocation.id, invocation.caller, entry.operation, own, dry_run=dry_run, confirm=confirm)


def _durability(call: Call) -> Durability:
    acts = call.operation.effect is not Effect.READ and not call.dry_run
    return Durability.BEFORE_EFFECT if acts else Durability.SOON


def _store_unavailable() -> Refused:
    return Refused(
        Category.STORE_UNAVAILABLE,
        "The controller cannot write its record, so nothing was executed; its operator finds the reason in its log",
    )


def _checked(call: Call, outcome: Outcome) -> Outcome:
    """Hold what a capability answered to JSON, its depth and, inside the controller, its size; processes were capped before."""
    if not isinstance(outcome, Completed):
        return outcome
    try:
        size = len(wire.write(outcome.value))
    except wire.WireError as error:
        _log.error("operation %s answered with something that is not JSON: %s", call.operation.name, error)
        return _unfit(call, "an answer that is not JSON")
    if wire.deeper_than(outcome.value, wire.MAX_DEPTH):
        # Every reader on the way has a limit of depth; beyond it the answer would be lost where nobody can say so.
        return _unfit(call, f"an answer nested deeper than {wire.MAX_DEPTH} levels")
    if call.operation.slots is Slots.INTERNAL and size > call.operation.output_cap:
        return _unfit(call, f"an answer of {size} bytes, over its cap of {call.operation.output_cap}")
    return outcome


def _unfit(call: Call, what: str) -> Failed:
    effect = EffectState.NONE if call.operation.effect is Effect.READ or call.dry_run else EffectState.COMPLETE
    return Failed(Category.CAPABILITY_FAILURE, f"{call.operation.name} gave {what}", effect=effect)


def _undelivered(done: asyncio.Task[Outcome], cause: Cause) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        done.result().receipt.undelivered(str(cause))
