"""What is written down of each invocation, and the interface of the store that keeps it.

Where and how it is kept is left to `store`; when it is written is decided in `local`: record first, act second.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bascule.node.terms import Category, Cause, Effect


class Durability(StrEnum):
    """When a write returns. `BEFORE_EFFECT`: committed with full synchronisation. `SOON`: queued, committed within 50 ms."""

    BEFORE_EFFECT = "before effect"
    SOON = "soon"


@dataclass(frozen=True, slots=True)
class Opening:
    """The first half of an entry, written before acting. Never argument values, never a secret."""

    id: str
    trace: str
    caller: str
    operation: str
    """The registered name; `unknown` where the caller named something it cannot see."""
    effect: Effect
    verdict: str
    """`allow`, `deny` or `ask`."""
    reason: str
    fingerprint: str
    """SHA-256 of the canonical arguments, hex; empty when they could not be read."""
    key: str | None
    opened_at: float
    """Wall clock, seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Closing:
    """The second half: how it ended."""

    id: str
    outcome: str
    """`completed`, `refused`, `failed` or `needs_answer`."""
    category: Category
    cause: Cause | None
    """None where nothing was executed."""
    detail: str
    duration: float
    """Seconds from opening to closing."""
    closed_at: float


@dataclass(frozen=True, slots=True)
class Delivery:
    """Whether the answer was handed over. Completes the entry; queued, never durable before an effect."""

    id: str
    delivered: bool
    cause: str
    at: float


class RecordStore(Protocol):
    """Keeps the record. Implementations: `store.sqlite`, and the in-memory one of `tests/kit`."""

    async def open(self, opening: Opening, durability: Durability) -> None:
        """Write the opening; return when `durability` holds.

        Raises:
            StoreUnavailableError: it cannot be kept, so nothing may be executed.
        """
        ...

    async def close(self, closing: Closing, durability: Durability) -> None:
        """Write the closing.

        Raises:
            StoreUnavailableError: it cannot be kept. The caller still gets its answer; the log says so.
        """
        ...

    def deliver(self, delivery: Delivery) -> None:
        """Queue the delivery. Never raises."""
        ...

    async def ready(self) -> bool:
        """Whether a write would be kept now; readiness asks this."""
        ...

    async def aclose(self) -> None:
        """Write what is queued and let go of the file."""
        ...
