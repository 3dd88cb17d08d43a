"""Work slots: held by the work, from the moment it is entered until it has really ended.

Connections and requests being read are counted elsewhere, by the gates; who is refused in which words is left to `local`.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bascule.node.terms import Slots

PROCESS_SLOTS: Final = 16
"""Processes at once: what a small machine bears; the same figure the node we follow uses."""

INTERNAL_SLOTS: Final = 64
"""Operations inside the controller at once: they cost little, yet not nothing."""

WAITING: Final = 64
"""Calls that may wait for a slot of one kind; the next is refused as busy instead of growing a queue."""


class NoSlotError(Exception):
    """Too many calls are waiting already."""


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """How many of each kind, and how many of those for processes one caller may hold."""

    process: int = PROCESS_SLOTS
    internal: int = INTERNAL_SLOTS
    waiting: int = WAITING

    @property
    def process_per_caller(self) -> int:
        """Half of them, so that one caller never keeps the others out."""
        return max(1, self.process // 2)


class WorkSlots:
    """The slots of one node."""

    def __init__(self, limits: SlotLimits | None = None) -> None:
        self._limits = limits or SlotLimits()
        self._free = {Slots.PROCESS: self._limits.process, Slots.INTERNAL: self._limits.internal}
        self._held: Counter[str] = Counter()
        self._waiting: dict[Slots, list[tuple[str, asyncio.Future[None]]]] = {kind: [] for kind in Slots}

    def __repr__(self) -> str:
        return f"<WorkSlots free: {dict(self._free)}, waiting: { {k: len(v) for k, v in self._waiting.items()} }>"

    @asynccontextmanager
    async def held(self, kind: Slots, caller: str) -> AsyncIterator[None]:
        """Hold one slot of `kind` for `caller`, waiting in order of arrival among those who may have one.

        Raises:
            NoSlotError: the queue is full.
        """
        if not self._takes(kind, caller):
            await self._wait(kind, caller)
        try:
            yield
        finally:
            self._give_back(kind, caller)

    def _takes(self, kind: Slots, caller: str) -> bool:
        if not self._free[kind]:
            return False
        if kind is Slots.PROCESS and self._held[caller] >= self._limits.process_per_caller:
            return False
        self._free[kind] -= 1
        self._held[caller] += kind is Slots.PROCESS
        return True

    async def _wait(self, kind: Slots, caller: str) -> None:
        queue = self._waiting[kind]
        if len(queue) >= self._limits.waiting:
            raise NoSlotError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (caller, turn)
        queue.append(place)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(kind, caller)  # it was handed over in the very moment we were told to leave
            raise
        finally:
            if place in queue:
                queue.remove(place)

    def _give_back(self, kind: Slots, caller: str) -> None:
        self._free[kind] += 1
        self._held[caller] -= kind is Slots.PROCESS
        if not self._held[caller]:
            del self._held[caller]
        queue = self._waiting[kind]
        for place in list(queue):
            if place[1].done():
                continue
            if self._takes(kind, place[0]):
                queue.remove(place)
                place[1].set_result(None)
                return
