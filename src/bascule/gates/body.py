"""Gate 13: reads the body whole, within its size and its time, and hands it on as one message.

What is in it is left to `json_body`. After the body, `receive` tells of the peer's leaving as before.
"""

import asyncio
import types
from collections.abc import Generator
from typing import Any, Final

from bascule.gates.gate import REFUSED, App, Message, Receive, Scope, Send, fields, refuse, was_read

MAX_BODY: Final = 4_194_304
"""Bytes, inclusive: what the node we follow accepts; the bridge says so before sending more."""

READ_TIME: Final = 30.0
"""Seconds from the head to the last byte, however slowly they trickle."""


class BodyGate:
    """Chunked bodies and lying lengths are counted as they come."""

    def __init__(self, app: App, *, max_body: int = MAX_BODY, read_time: float = READ_TIME) -> None:
        self._app, self._max_body, self._read_time = app, max_body, read_time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = fields(scope, b"content-length")
        if declared and declared[0].isdigit() and int(declared[0][:20]) > self._max_body:
            await self._too_large(send)
            return
        try:
            body = await self._read_in_time(receive)
        except TimeoutError:
            message = f"The body did not arrive whole within {self._read_time:g} s"
            await refuse(send, 408, REFUSED, message, close=True)
            return
        except _PeerGoneError:
            return
        if body is None:
            await self._too_large(send)
            return
        was_read(scope)
        await self._app(scope, _replay(body, receive), send)

    async def _read_in_time(self, receive: Receive) -> bytes | None:
        """Return the body, or None when it is larger than it may be; a timer is only set where there is waiting to do."""
        started = receive()
        try:
            waiting = started.send(None)  # type: ignore[attr-defined] # a coroutine: uvicorn's, and every gate's before
        except StopIteration as arrived:
            first: Message = arrived.value
            if not first.get("more_body", False):
                return await self._read(first, receive)
            async with asyncio.timeout(self._read_time):
                return await self._read(first, receive)
        async with asyncio.timeout(self._read_time):
            return await self._read(await _rest(started, waiting), receive)

    async def _read(self, first: Message, receive: Receive) -> bytes | None:
        if first["type"] == "http.request" and not first.get("more_body", False):
            whole: bytes = first.get("body", b"")
            return whole if len(whole) <= self._max_body else None
        parts, size, message = [], 0, first
        while True:
            if message["type"] == "http.disconnect":
                raise _PeerGoneError
            part = message.get("body", b"")
            size += len(part)
            if size > self._max_body:
                return None
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)
            message = await receive()

    async def _too_large(self, send: Send) -> None:
        await refuse(send, 413, REFUSED, f"The body is larger than {self._max_body} bytes", close=True)


@types.coroutine
def _rest(started: Any, waiting: Any) -> Generator[Any, Any, Message]:
    """Go on with a coroutine that was started by hand and waits for `waiting`."""
    while True:
        try:
            try:
                given = yield waiting
            except BaseException as error:  # noqa: BLE001 - a cancellation belongs to the coroutine as much as to us
                waiting = started.throw(error)
            else:
                waiting = started.send(given)
        except StopIteration as ended:
            message: Message = ended.value
            return message


class _PeerGoneError(Exception):
    """The peer left in the middle of its request; there is nobody to answer."""


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed
