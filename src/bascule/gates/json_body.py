"""Gate 14: the body is strict JSON and one object.

What the object says is left to the endpoint; strictness itself to `wire`. The bytes go on as they came.
"""

from bascule import wire
from bascule.gates.gate import INVALID_REQUEST, PARSE_ERROR, App, Message, Receive, Scope, Send, refuse


class JsonBodyGate:
    """Expects the body as one message: it stands behind `body`."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        first = await receive()
        try:
            value = wire.read(first.get("body", b""))
        except wire.WireError as error:
            await refuse(send, 400, PARSE_ERROR, f"Parse error: {error}")
            return
        if isinstance(value, list):
            await refuse(send, 400, INVALID_REQUEST, "Batches are not part of MCP 2026-07-28: send one message")
        elif not isinstance(value, dict):
            await refuse(send, 400, INVALID_REQUEST, "The body must be one JSON object")
        else:
            await self._app(scope, _with_first(first, receive), send)


def _with_first(first: Message, receive: Receive) -> Receive:
    pending = [first]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
