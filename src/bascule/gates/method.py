"""Gate 10: POST for `/mcp`, GET and HEAD for health.

There is no stream to GET and no session to DELETE: a refusal says so by `Allow`.
"""

from typing import Final

from bascule.gates.gate import ENDPOINT, REFUSED, App, Receive, Scope, Send, refuse

_ENDPOINT: Final = frozenset({"POST"})
_HEALTH: Final = frozenset({"GET", "HEAD"})


class MethodGate:
    """Compares methods as they are: they are case-sensitive (RFC 9110, 9.1)."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        allowed = _ENDPOINT if scope["raw_path"] == ENDPOINT else _HEALTH
        if scope["method"] in allowed:
            await self._app(scope, receive, send)
            return
        allow = ", ".join(sorted(allowed))
        await refuse(
            send, 405, REFUSED, f"Method not allowed: {allow} only", headers=[(b"allow", allow.encode())], close=True
        )
