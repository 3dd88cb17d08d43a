"""The ASGI endpoint of a controller: 2026-07-28 around the SDK's session manager, every other opening refused by name.

Size, time, strictness and identity were settled by the gates in front; envelopes and headers are checked by the SDK.
"""

import contextlib
from collections.abc import AsyncIterator, MutableMapping
from typing import Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from bascule import wire
from bascule.protocol.delivery import watched
from bascule.protocol.server import NodeServer
from bascule.protocol.versions import HEADER_MISMATCH, INITIALIZE_ERA, unserved_opening

VERSION_HEADER: Final = b"mcp-protocol-version"
ENVELOPE: Final = "io.modelcontextprotocol/protocolVersion"

Scope = MutableMapping[str, Any]


class Endpoint:
    """Serves one `NodeServer` over HTTP. Enter `running` for as long as it serves."""

    def __init__(self, server: NodeServer) -> None:
        self._server = server
        # SSE mode answers plain JSON while nothing was emitted, and alone notices that a client left (decision 3).
        # The SDK's own Host and Origin checks stay off: the gates' are exact, and two lists would drift apart.
        self._manager = StreamableHTTPSessionManager(server, json_response=False)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends."""
        async with self._manager.run():
            yield

    def close_streams(self) -> None:
        """End standing streams with their proper result."""
        self._server.close_streams()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        given = [value for name, value in scope["headers"] if name == VERSION_HEADER]
        if not given or given[0].decode("latin-1") in INITIALIZE_ERA:
            await _refuse(given[0].decode("latin-1") if given else None, receive, send)
            return
        await watched(self._manager.handle_request, scope, receive, send)


async def _refuse(header: str | None, receive: Any, send: Any) -> None:
    """Refuse what opens or speaks an older era, with the request's own id (decision 4)."""
    message = await receive()
    try:
        body = wire.read(message.get("body", b""))
    except wire.WireError:
        body = {}
    body = body if isinstance(body, dict) else {}
    request_id = body.get("id")
    known_id = request_id if isinstance(request_id, (str, int)) and not isinstance(request_id, bool) else None
    answer = wire.write({"jsonrpc": "2.0", "id": known_id, "error": _error(header, body)})
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 400, "headers": fields})
    await send({"type": "http.response.body", "body": answer})


def _error(header: str | None, body: dict[str, Any]) -> dict[str, Any]:
    params = body.get("params")
    params = params if isinstance(params, dict) else {}
    if body.get("method") == "initialize":
        requested = params.get("protocolVersion")
        return unserved_opening(requested if isinstance(requested, str) else header or "")
    if header is not None:
        return unserved_opening(header)
    meta = params.get("_meta")
    enveloped = isinstance(meta, dict) and ENVELOPE in meta
    missing = (
        "The request names its protocol version in the body only"
        if enveloped
        else "The request names no protocol version"
    )
    return {"code": HEADER_MISMATCH, "message": f"{missing}: the header MCP-Protocol-Version is missing"}
