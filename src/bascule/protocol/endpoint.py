"""The ASGI endpoint of a controller: 2026-07-28 around the SDK's session manager, every other opening refused by name.

Size, time, strictness and identity were settled by the gates in front; envelopes and headers are checked by the SDK.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from bascule import wire
from bascule.protocol.delivery import watched
from bascule.protocol.server import NodeServer
from bascule.protocol.versions import HEADER_MISMATCH, INITIALIZE_ERA, unserved_opening

VERSION_HEADER: Final = b"mcp-protocol-version"
ENVELOPE: Final = "io.modelcontextprotocol/protocolVersion"

MAX_REFUSED_BODY: Final = 4_194_304
"""Bytes of a body that are looked at for its id: as much as the gates let through, should none stand in front."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Endpoint:
    """Serves one `NodeServer` over HTTP. Enter `running` for as long as it serves."""

    def __init__(self, server: NodeServer) -> None:
        self._server = server
        # SSE mode answers plain JSON while nothing was emitted, and alone notices that a client left (decision 3).
        # The SDK's own Host and Origin checks stay off: the gates' are exact, and two lists would drift apart.
        self._manager = StreamableHTTPSessionManager(server, json_response=False)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends. Once per endpoint."""
        async with self._manager.run():
            yield

    def close_streams(self) -> None:
        """End standing streams with their proper result, as a drain does first."""
        self._server.close_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP exchange, and settle the receipt of its answer.

        What names no modern revision in `MCP-Protocol-Version` goes no further (decision 4), always with 400 and the
        request's own id:

        1. `initialize`, without the header or with one of the initialize era: -32022, and what is served.
        2. An initialize-era header on an enveloped body: -32020, they disagree. On any other body: -32022.
        3. No header: -32020, because a required header is missing, whether the body names the version or not. A client
           of the initialize era opens with `initialize` and gets its -32022 there.

        Unknown versions and everything else are the SDK's to refuse.
        """
        given = next((value for name, value in scope["headers"] if name == VERSION_HEADER), None)
        header = None if given is None else given.decode("latin-1")
        if header is None or header in INITIALIZE_ERA:
            await _refuse(header, await _body(receive), send)
            return
        await watched(self._manager.handle_request, scope, receive, send)


async def _refuse(header: str | None, body: dict[str, Any], send: Send) -> None:
    given = body.get("id")
    known_id = given if isinstance(given, (str, int)) and not isinstance(given, bool) else None
    answer = wire.write({"jsonrpc": "2.0", "id": known_id, "error": _error(header, body)})
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 400, "headers": fields})
    await send({"type": "http.response.body", "body": answer})


async def _body(receive: Receive) -> dict[str, Any]:
    """Return the request's message, or an empty one where it is none that could be answered."""
    parts: list[bytes] = []
    room, more = MAX_REFUSED_BODY, True
    while more and room >= 0:
        message = await receive()
        parts.append(message.get("body", b""))
        room -= len(parts[-1])
        more = message.get("more_body", False)
    try:
        body = wire.read(b"".join(parts))
    except wire.WireError:
        return {}
    return body if isinstance(body, dict) else {}


def _error(header: str | None, body: dict[str, Any]) -> dict[str, Any]:
    params = body.get("params")
    params = params if isinstance(params, dict) else {}
    if body.get("method") == "initialize":  # 1
        requested = params.get("protocolVersion")
        return unserved_opening(requested if isinstance(requested, str) else header or "")
    meta = params.get("_meta")
    enveloped = isinstance(meta, dict) and ENVELOPE in meta
    if header is not None and not enveloped:  # 2
        return unserved_opening(header)
    if header is not None:
        return _mismatch("The header MCP-Protocol-Version and the protocol version in the body disagree")
    where = "in the body only" if enveloped else "nowhere"  # 3
    return _mismatch(f"The request names its protocol version {where}: the header MCP-Protocol-Version is missing")


def _mismatch(message: str) -> dict[str, Any]:
    return {"code": HEADER_MISMATCH, "message": message}
