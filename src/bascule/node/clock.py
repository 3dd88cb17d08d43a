"""The time, as something that can be handed in.

Deadlines use the event loop's own clock; this one is for what is written down.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time. `tests/kit` has one that is moved by hand."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...


class SystemClock:
    """The machine's own wall clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time_ns() / 1_000_000_000
