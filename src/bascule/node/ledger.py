"""Writes the two halves of an entry and hands out the receipt that completes it.

Where entries are kept is left to the store behind `record.RecordStore`; when they are written to `local`.
"""

import hashlib
import json
import logging
from dataclasses import replace
from typing import Final

from bascule.node.clock import Clock
from bascule.node.errors import StoreUnavailableError
from bascule.node.record import Closing, Delivery, Durability, Opening, RecordStore
from bascule.node.terms import (
    Cause,
    Completed,
    Effect,
    Failed,
    Invocation,
    JsonValue,
    NeedsAnswer,
    Operation,
    Outcome,
    Refused,
    category_of,
)

MAX_REASON: Final = 300
"""Characters of a reason kept in the record."""

_log: Final = logging.getLogger("bascule.node")


class Ledger:
    """The node's pen. One per node."""

    def __init__(self, record: RecordStore, clock: Clock) -> None:
        self._record, self._clock = record, clock
        self._opened: dict[str, float] = {}

    async def open(
        self,
        invocation: Invocation,
        operation: Operation | None,
        verdict: str,
        reason: str,
        arguments: JsonValue,
        durability: Durability,
    ) -> None:
        """Write the first half; `operation` and `arguments` are None where they were not seen or not read.

        Raises:
            StoreUnavailableError: it cannot be kept, so nothing may be done.
        """
        now = self._clock.now()
        opening = Opening(
            id=invocation.id,
            trace=invocation.trace,
            caller=invocation.caller.name,
            operation=operation.name if operation else "unknown",
            effect=operation.effect if operation else Effect.READ,
            verdict=verdict,
            reason=reason[:MAX_REASON],
            fingerprint="" if arguments is None else fingerprint(arguments),
            key=invocation.key,
            opened_at=now,
        )
        await self._record.open(opening, durability)
        self._opened[invocation.id] = now

    async def close(self, operation_id: str, outcome: Outcome, durability: Durability) -> Outcome:
        """Write the second half and return `outcome` with its receipt. A store that fails now takes nothing away."""
        now = self._clock.now()
        closing = Closing(
            id=operation_id,
            outcome=_KINDS[type(outcome)],
            category=category_of(outcome),
            cause=_cause(outcome),
            detail="" if isinstance(outcome, Completed) else (outcome.detail or outcome.message)[:MAX_REASON],
            duration=max(0.0, now - self._opened.pop(operation_id, now)),
            closed_at=now,
        )
        try:
            await self._record.close(closing, durability)
        except StoreUnavailableError as error:
            _log.error("the outcome of %s could not be recorded: %s (%s)", operation_id, error, error.detail)
        return replace(outcome, receipt=_OnceReceipt(operation_id, self._record, self._clock))


class _OnceReceipt:
    """Completes an entry the first time it is told; later reports are not heard."""

    __slots__ = ("_clock", "_id", "_record")

    def __init__(self, operation_id: str, record: RecordStore, clock: Clock) -> None:
        self._id, self._clock = operation_id, clock
        self._record: RecordStore | None = record

    def delivered(self) -> None:
        self._report(delivered=True, cause="")

    def undelivered(self, cause: str) -> None:
        self._report(delivered=False, cause=cause)

    def _report(self, *, delivered: bool, cause: str) -> None:
        record, self._record = self._record, None
        if record is not None:
            record.deliver(Delivery(self._id, delivered, cause[:MAX_REASON], self._clock.now()))


_KINDS: Final = {Completed: "completed", Refused: "refused", Failed: "failed", NeedsAnswer: "needs_answer"}


def _cause(outcome: Outcome) -> Cause | None:
    match outcome:
        case Completed():
            return Cause.COMPLETED
        case Failed(cause=cause):
            return cause
        case _:
            return None


def fingerprint(arguments: JsonValue) -> str:
    """Return the SHA-256, in hex, of the canonical form: members sorted by code point, strings and integers in full,
    other numbers as the shortest decimal of their double."""
    canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
