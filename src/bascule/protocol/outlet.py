"""What goes to one stdio client: answers that fit their line, one line after the other, and receipts that tell the truth.

What is said is left to `stdio`; how bytes reach a descriptor to `pipes`; the words in place of an answer to `answers`.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp_types import INTERNAL_ERROR

from bascule import wire
from bascule.node.terms import JsonObject, Receipt
from bascule.protocol import answers
from bascule.protocol.ledger import Gathering
from bascule.protocol.pipes import Outgoing

MAX_ANSWER: Final = 9 * 1024 * 1024
"""Bytes of one line to a client: SDK clients die of lines over 10 MiB."""

MAX_BACKLOG: Final = 1024 * 1024
"""Bytes of lines that wait to be written; beyond, neither the client nor the server is listened to until it reads."""

_log: Final = logging.getLogger("bascule.protocol.outlet")


class StdioDeliveries:
    """Receipts by our request id, until the line is written or will not be."""

    def __init__(self) -> None:
        self._receipts: dict[Any, Receipt] = {}

    def expect(self, ctx: ServerRequestContext[Any, Any], receipt: Receipt) -> None:
        """Keep `receipt` until the answer is written."""
        self._receipts[ctx.request_id] = receipt

    def abandon(self, cause: str) -> None:
        """Nothing more will be written."""
        for our_id in list(self._receipts):
            self.settle(our_id, handed_over=False, cause=cause)

    def settle(self, our_id: Any, *, handed_over: bool, cause: str = "") -> None:
        """The answer to `our_id` was handed over, or will not be."""
        receipt = self._receipts.pop(our_id, None)
        if receipt is not None:
            if handed_over:
                receipt.delivered()
            else:
                receipt.undelivered(cause)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line to the client, and whom to tell what became of it."""

    data: bytes
    told: tuple[tuple[int, str], ...] = ()
    """Our ids of the requests it answers, each with why its real answer is not in it; empty where it is."""


class Outlet:
    """Lines to one client, in the order they were given."""

    def __init__(
        self, outgoing: Outgoing, deliveries: StdioDeliveries, *, most: int, moved: Callable[[], None]
    ) -> None:
        """Prepare.

        Args:
            outgoing: where lines go.
            deliveries: told what became of each answer.
            most: bytes of one line.
            moved: called whenever the backlog changed.
        """
        self._outgoing, self._deliveries, self._most, self._moved = outgoing, deliveries, most, moved
        self._writes: asyncio.Queue[_Line] = asyncio.Queue()
        self.backlog = 0
        """Bytes of lines that are not written yet."""

    def batch(self, gathering: Gathering) -> None:
        """Write a batch's answers as one line; where they do not fit together, the largest make room."""
        if not gathering.complete or not gathering.answers:
            return
        encoded = [self._encoded(answer) for answer in gathering.answers]
        largest_first = sorted(range(len(encoded)), key=lambda place: -len(encoded[place][0]))
        size = sum(len(data) + 1 for data, _ in encoded) + 1
        for place in largest_first:
            if size <= self._most:
                break
            size -= len(encoded[place][0])
            encoded[place] = self._replaced(gathering.answers[place], len(encoded[place][0]))
            size += len(encoded[place][0])
        told = tuple(
            (ours, problem) for ours, (_, problem) in zip(gathering.ours, encoded, strict=True) if ours is not None
        )
        gathering.answers, gathering.ours = [], []
        self._put(_Line(b"[" + b",".join(data for data, _ in encoded) + b"]", told))

    def answer(self, answer: JsonObject, ours: int | None) -> None:
        """Write the answer to our request `ours`, or to one that never went on."""
        data, problem = self._encoded(answer)
        self._put(_Line(data, () if ours is None else ((ours, problem),)))

    def tell(self, message: JsonObject) -> None:
        """Write a message that answers nothing; one that no line can hold is dropped, for want of anything to say."""
        try:
            data = wire.write(message)
        except wire.WireError as error:
            _log.error("a %s could not be written: %s", message["method"], error)
            return
        if len(data) > self._most:
            _log.error("a %s of %d bytes was dropped: no client reads such a line", message["method"], len(data))
            return
        self._put(_Line(data))

    def _encoded(self, answer: JsonObject) -> tuple[bytes, str]:
        """Return an answer's bytes, and why they are another's; empty where they are its own."""
        try:
            data = wire.write(answer)
        except wire.WireError as error:
            _log.error("an answer could not be written: %s", error)
            return wire.write(answers.error(answer, INTERNAL_ERROR, "Internal error")), "it is not JSON"
        return (data, "") if len(data) <= self._most else self._replaced(answer, len(data))

    def _replaced(self, answer: JsonObject, size: int) -> tuple[bytes, str]:
        room = self._most
        return wire.write(answers.too_large(answer, size, room)), f"its {size} bytes do not fit a line of {room}"

    def _put(self, line: _Line) -> None:
        self.backlog += len(line.data)
        self._writes.put_nowait(line)
        self._moved()

    async def flushed(self) -> None:
        """Return once every line was written, or will not be."""
        await self._writes.join()

    async def run(self) -> None:
        """Write lines until cancelled."""
        while True:
            line = await self._writes.get()
            try:
                handed_over = await self._outgoing.write(line.data)
                for ours, problem in line.told:
                    cause = problem or "the client's pipe is closed"
                    self._deliveries.settle(ours, handed_over=handed_over and not problem, cause=cause)
            finally:
                self.backlog -= len(line.data)
                self._moved()
                self._writes.task_done()
