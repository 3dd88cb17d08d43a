"""The endpoint on a real socket, over any node, with a caller put on each request and no gate in front."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bascule.identity import Caller, caller_of, put_caller
from bascule.listener import Listener, listen
from bascule.node.node import Node
from bascule.node.terms import Cause
from bascule.protocol.delivery import HttpDeliveries, scope_of
from bascule.protocol.endpoint import Endpoint
from bascule.protocol.server import NodeServer

CALLER = Caller("alice")


@dataclass
class Served:
    """A running endpoint."""

    port: int
    endpoint: Endpoint
    server: NodeServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


def node_server(node: Node) -> NodeServer:
    """The server as the controller has it."""
    return NodeServer(
        node,
        name="box",
        version="1.2.3",
        caller_of=lambda ctx: caller_of(scope_of(ctx)),
        deliveries=HttpDeliveries(),
        if_dropped=Cause.ABANDONED,
        watched_as=CALLER,
    )


def application(endpoint: Endpoint) -> Any:
    """`endpoint` as an ASGI application with a lifespan."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            put_caller(scope, CALLER)
            await endpoint(scope, receive, send)
            return
        await receive()
        async with endpoint.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return app


@asynccontextmanager
async def endpoint_on_a_socket(node: Node) -> AsyncIterator[Served]:
    """Listen on a free port of loopback."""
    server = node_server(node)
    endpoint = Endpoint(server)
    [sockets] = listen([("127.0.0.1", 0)])
    listener = Listener(application(endpoint), protocol=HttpToolsProtocol)
    serving = asyncio.ensure_future(listener.serve(sockets=[sockets]))
    try:
        await listener.ready.wait()
        yield Served(sockets.getsockname()[1], endpoint, server)
    finally:
        endpoint.close_streams()
        listener.should_exit = True
        await serving
