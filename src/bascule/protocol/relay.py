"""What a remote tool says while it works, handed to the one who called it: in order, and all of it before the answer.

Which messages belong to which call is known to `exchange`; how they reach the client is the server's.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from bascule.node.node import Back
from bascule.node.terms import JsonObject, Passed
from bascule.protocol.link import LOG_LEVEL

MAX_WAITING: Final = 1_024
"""Messages of one call that wait for a slow client; beyond, the oldest are dropped: progress is advice, answers are not."""

FLUSH: Final = 2.0
"""Seconds the answer waits for messages before it: a client that does not read them does not read the answer either."""


class Relay:
    """Forwards one call's messages by one task. Enter it around the call."""

    def __init__(self, back: Back, token: int, params: Passed | None) -> None:
        self._back, self._token = back, token
        sent = params.payload.get("_meta") if params is not None and isinstance(params.payload, dict) else None
        asked = sent if isinstance(sent, Mapping) else {}
        self._progress, self._logs = "progressToken" in asked, LOG_LEVEL in asked
        self._waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(MAX_WAITING)
        self._forwarding: asyncio.Task[None] | None = None

    @property
    def meta(self) -> JsonObject:
        """What the request must say so that the server sends what the client asked for; nothing where it did not."""
        return {"progressToken": self._token} if self._progress else {}

    def notice(self, method: str, params: dict[str, Any]) -> None:
        """Take one message. Called in the order they came; never blocks."""
        if self._forwarding is None:
            self._forwarding = asyncio.create_task(self._forward())
        if self._waiting.full():
            self._waiting.get_nowait()
            self._waiting.task_done()
        self._waiting.put_nowait((method, params))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._forwarding is None:
            return
        said = asyncio.ensure_future(self._waiting.join())
        try:
            if error is None:
                # The forwarding ends first only when the client cannot be told anything any more.
                await asyncio.wait({said, self._forwarding}, timeout=FLUSH, return_when=asyncio.FIRST_COMPLETED)
        finally:
            said.cancel()
            self._forwarding.cancel()
            await asyncio.gather(said, self._forwarding, return_exceptions=True)

    async def _forward(self) -> None:
        while True:
            method, params = await self._waiting.get()
            try:
                await self._say(method, params)
            finally:
                self._waiting.task_done()

    async def _say(self, method: str, params: dict[str, Any]) -> None:
        match method, params:
            case "notifications/progress", {"progressToken": token, "progress": int() | float() as done} if (
                token == self._token and self._progress
            ):
                total, message = params.get("total"), params.get("message")
                await self._back.progress(
                    done,
                    total if isinstance(total, (int, float)) else None,
                    message if isinstance(message, str) else None,
                )
            case "notifications/message", {"level": str() as level} if self._logs:
                await self._back.log(level, params.get("data"))
