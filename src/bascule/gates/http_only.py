"""Gate 1: HTTP requests and the server's own lifespan pass; everything else is closed.

Which HTTP requests are welcome is left to the gates behind.
"""

from bascule.gates.gate import App, Receive, Scope, Send


class HttpOnlyGate:
    """Closes WebSockets and whatever else a server may learn to speak."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "lifespan"):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
