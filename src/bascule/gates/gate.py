"""The shape of a gate, how gates are stacked, and how one refuses.

What each gate refuses is left to its own file; which gates stand in which order is left to `assembly`.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

from bascule import wire

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

Gate: TypeAlias = Callable[[App], App]
"""Takes what stands behind it and returns itself in front of that."""

ENDPOINT: Final = b"/mcp"
LIVENESS: Final = b"/healthz"
READINESS: Final = b"/readyz"

INVALID_REQUEST: Final = -32600
PARSE_ERROR: Final = -32700
REFUSED: Final = -32000
"""Server error of JSON-RPC for refusals that are about the HTTP exchange, not the message."""


def through(gates: Sequence[Gate], app: App) -> App:
    """Return `app` behind `gates`, of which the first is the outermost: the list reads in the order of a request."""
    for gate in reversed(gates):
        app = gate(app)
    return app


async def refuse(
    send: Send,
    status: int,
    code: int,
    message: str,
    *,
    headers: Sequence[tuple[bytes, bytes]] = (),
    close: bool = False,
) -> None:
    """Answer once with a JSON-RPC error of `id: null`, the only form that reaches a stdio client with its words."""
    body = wire.write({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *headers,
        *([(b"connection", b"close")] if close else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def fields(scope: Scope, name: bytes) -> list[bytes]:
    """Return every value of header field `name` (lower case), in order; the request's head is sorted out once."""
    index: dict[bytes, list[bytes]] | None = scope.get(_FIELDS)
    if index is None:
        index = {}
        for key, value in scope["headers"]:
            index.setdefault(key, []).append(value)
        scope[_FIELDS] = index
    return index.get(name, [])


_FIELDS: Final = "bascule.fields"
_RELEASE: Final = "bascule.release"


def when_read(scope: Scope, release: Callable[[], None]) -> None:
    """Keep `release` until the request was read whole."""
    scope[_RELEASE] = release


def was_read(scope: Scope) -> None:
    """Say that the request was read whole, or never will be; saying so twice is harmless."""
    release = scope.pop(_RELEASE, None)
    if release is not None:
        release()
