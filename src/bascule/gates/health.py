"""Behind gate 10: `/healthz` and `/readyz` are answered here; `/mcp` goes on.

What readiness means is left to whoever is asked; liveness only says that the process answers.
"""

from collections.abc import Awaitable, Callable

from bascule import wire
from bascule.gates.gate import ENDPOINT, LIVENESS, App, Receive, Scope, Send


class Health:
    """Not a gate: it refuses nothing. It keeps the gates for bodies off requests that have none."""

    def __init__(self, app: App, *, ready: Callable[[], Awaitable[bool]]) -> None:
        self._app, self._ready = app, ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["raw_path"] == ENDPOINT:
            await self._app(scope, receive, send)
        elif scope["raw_path"] == LIVENESS:
            await _answer(send, 200, b"", head=scope["method"] == "HEAD")
        else:
            ready = await self._ready()
            body = wire.write({"ready": ready})
            await _answer(send, 200 if ready else 503, body, head=scope["method"] == "HEAD")


async def _answer(send: Send, status: int, body: bytes, *, head: bool) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    if body:
        headers.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})
