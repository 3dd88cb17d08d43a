"""A protocol server at the end of memory streams, as a pipe would have it: for the SDK's client, and for raw peers.

Framing and its malformed lines are `stdio`'s and not here: every message is one already read.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from bascule.protocol.server import NodeServer
from kit.peers import LinePeer, shake_hands

Streams = tuple[Any, Any]


@asynccontextmanager
async def piped(server: NodeServer, outlet: Callable[[Any], Any] = lambda stream: stream) -> AsyncIterator[Streams]:
    """Serve one connection; yields the client's (read, write) streams, which is also what `Client` takes.

    `outlet` may wrap the stream that the server writes to.
    """
    to_server, server_reads = anyio.create_memory_object_stream[SessionMessage | Exception](32)
    to_client, client_reads = anyio.create_memory_object_stream[SessionMessage | Exception](32)
    async with server.lifespan(server) as state, anyio.create_task_group() as serving:

        async def serve() -> None:
            options = server.create_initialization_options()
            writes = outlet(to_client)
            await serve_dual_era_loop(server, server_reads, writes, lifespan_state=state, init_options=options)

        serving.start_soon(serve)
        async with to_server, client_reads:
            yield client_reads, to_server
            serving.cancel_scope.cancel()


@asynccontextmanager
async def raw_peer(server: NodeServer, era: str, *, open_it: bool = True, **pipe: Any) -> AsyncIterator[LinePeer]:
    """A raw client of `era`; one of the initialize era has shaken hands unless told otherwise."""
    async with piped(server, **pipe) as (read, write):

        async def send(line: bytes) -> None:
            await write.send(SessionMessage(jsonrpc_message_adapter.validate_python(json.loads(line), by_name=False)))

        async def hear() -> None:
            async for item in read:
                peer.heard(json.dumps(item.message.model_dump(mode="json", by_alias=True, exclude_none=True)).encode())

        peer = LinePeer(era, send)
        hearing = asyncio.ensure_future(hear())
        try:
            if era == "legacy" and open_it:
                await shake_hands(peer)
            yield peer
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
