"""Gate 3: three paths exist, compared raw, byte for byte.

What each path does is left to `health` and to the endpoint; decoding and normalising paths to nobody.
"""

from typing import Final

from bascule.gates.gate import ENDPOINT, LIVENESS, READINESS, REFUSED, App, Receive, Scope, Send, refuse

PATHS: Final = frozenset({ENDPOINT, LIVENESS, READINESS})


class PathGate:
    """`//mcp`, `/%6dcp`, `/mcp/`, the absolute form: all of them are other paths."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["raw_path"] in PATHS:
            await self._app(scope, receive, send)
            return
        message = "Not found: a controller answers at /mcp, /healthz and /readyz"
        await refuse(send, 404, REFUSED, message, close=True)
