"""Gate 12: the client takes both forms an answer may have, JSON and an event stream.

Which form it gets is left to the endpoint: an answer becomes a stream only once something is emitted.
"""

from typing import Final

from bascule.gates.gate import REFUSED, App, Receive, Scope, Send, fields, refuse

NEEDED: Final = frozenset({b"application/json", b"text/event-stream"})
"""MCP 2026-07-28, Streamable HTTP: a client must list both."""


class AcceptGate:
    """Both by name, or `*/*`."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _accepts(fields(scope, b"accept")):
            await self._app(scope, receive, send)
            return
        message = "Accept must list application/json and text/event-stream"
        await refuse(send, 406, REFUSED, message, close=True)


def _accepts(values: list[bytes]) -> bool:
    accepted = {item.partition(b";")[0].strip().lower() for value in values for item in value.split(b",")}
    return b"*/*" in accepted or accepted >= NEEDED
