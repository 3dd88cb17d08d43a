"""What is in flight on one pipe: which client id stands for which id of ours, and which batch an answer belongs to.

The SDK takes `"7"` and `7` for one id and lets a second request take the place of a first; so it never sees a client's id.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from bascule.node.terms import JsonObject
from bascule.protocol.framing import Id

MAX_IN_FLIGHT: Final = 256
"""Requests of one client at once; more are left in the pipe until some are answered."""

STANDING: Final = frozenset({"subscriptions/listen"})
"""Methods whose answer comes when they end; nobody waits for them at the end of input."""


@dataclass(slots=True)
class Gathering:
    """The answers of one batch, written together."""

    waiting: int = 0
    answers: list[JsonObject] = field(default_factory=list)
    ours: list[int | None] = field(default_factory=list)
    """For each answer our id of its request; None where it answers none that went on."""
    closed: bool = False
    """Whether every message of it was looked at."""

    def add(self, answer: JsonObject, our_id: int | None = None) -> None:
        """Add an answer."""
        self.answers.append(answer)
        self.ours.append(our_id)

    @property
    def complete(self) -> bool:
        return self.closed and not self.waiting


@dataclass(slots=True)
class Flight:
    """One request in flight."""

    id: Id
    method: str
    batch: Gathering | None


class Ledger:
    """All requests in flight of one connection."""

    def __init__(self) -> None:
        self._flights: dict[int, Flight] = {}
        self._inside: dict[tuple[type, Id], int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def awaited(self) -> int:
        """Requests that will be answered without being ended."""
        return sum(flight.method not in STANDING for flight in self._flights.values())

    def open(self, client_id: Id, method: str, batch: Gathering | None) -> int | None:
        """Enter a request; return the id it goes on under, or None where its own id is in flight already."""
        key = (type(client_id), client_id)
        if key in self._inside:
            return None
        self._last += 1
        self._inside[key] = self._last
        self._flights[self._last] = Flight(client_id, method, batch)
        if batch is not None:
            batch.waiting += 1
        return self._last

    def inside(self, client_id: Any) -> int | None:
        """Return our id of a client's request in flight; `7` and `"7"` are two."""
        if isinstance(client_id, bool) or not isinstance(client_id, (str, int)):
            return None
        return self._inside.get((type(client_id), client_id))

    def outside(self, our_id: Any) -> Id | None:
        """Return the client's id of a request in flight."""
        flight = self._flights.get(our_id) if isinstance(our_id, int) else None
        return flight.id if flight else None

    def close(self, our_id: Any) -> Flight | None:
        """Take a request out, answered or cancelled; None where it is not in flight any more."""
        flight = self._flights.pop(our_id, None) if isinstance(our_id, int) else None
        if flight is None:
            return None
        del self._inside[(type(flight.id), flight.id)]
        if flight.batch is not None:
            flight.batch.waiting -= 1
        return flight
