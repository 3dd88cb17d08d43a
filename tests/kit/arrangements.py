"""The arrangements one contract runs over: memory, stdio, HTTP, bridged; in each era that the wire knows.

Each puts real parts together as `assembly` does; what must hold in all of them is left to tests/contract.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bascule import __version__, binding
from bascule.assembly.controller import boundary
from bascule.gates.connections import ConnectionCounts, ConnectionLimits, limited_protocol
from bascule.gates.drain import Draining
from bascule.gates.trace import trace_of
from bascule.identity import Caller, caller_of
from bascule.listener import Listener, listen
from bascule.node.local import LocalNode
from bascule.node.node import Node
from bascule.node.registry import Registry
from bascule.node.rules import allowlist
from bascule.node.terms import Cause
from bascule.protocol.addresses import read_url
from bascule.protocol.delivery import HttpDeliveries, scope_of
from bascule.protocol.endpoint import Endpoint
from bascule.protocol.expectation import parse
from bascule.protocol.remote import RemoteNode
from bascule.protocol.server import NodeServer
from bascule.protocol.stdio import StdioDeliveries, serve_stdio
from bascule.settings import ControllerSettings, Settings
from kit.doubles import MemoryRecord, Scripted
from kit.memory import raw_peer
from kit.peers import HttpPeer, LinePeer, Peer, http_peer, shake_hands

CALLER = Caller("owner")
TOKEN = "good"
HIDDEN = "hidden.echo"

ARRANGEMENTS = [
    "memory-initialize", "memory-modern", "stdio-initialize", "stdio-modern", "http-modern", "bridged-initialize", "bridged-modern",
]  # fmt: skip


@dataclass
class Arranged:
    """One arrangement, up: who asks, and what stands at the far end."""

    kind: str
    peer: Peer
    node: LocalNode
    registry: Registry
    work: Scripted
    record: MemoryRecord

    @property
    def era(self) -> str:
        return self.kind.partition("-")[2]


def _server(node: Node, deliveries: Any, **more: Any) -> NodeServer:
    told = {"caller_of": lambda _ctx: CALLER, "if_dropped": Cause.CANCELLED, "watched_as": CALLER} | more
    return NodeServer(node, name="contract-box", version=__version__, deliveries=deliveries, **told)


@asynccontextmanager
async def arranged(
    kind: str, tmp_path: Path, *, allow: tuple[str, ...] = (), version: str | None = "2025-11-25"
) -> AsyncIterator[Arranged]:
    """Put `kind` together around a node with scripted operations, one of which nobody is allowed.

    `allow` adds to the allowlist; `version` is what an initialize-era peer opens with, None leaves it unopened.
    """
    wire, _, era = kind.partition("-")
    record, registry = MemoryRecord(), Registry()
    work = Scripted(record=record)
    registry.add(work)
    registry.add(Scripted(prefix="hidden."))
    node = LocalNode(
        registry, allowlist(["echo", "wait", "change", "destroy", "crash", "report", "more.*", *allow]), record
    )
    async with AsyncExitStack() as stack:
        match wire:
            case "memory":
                line = await stack.enter_async_context(
                    raw_peer(_server(node, StdioDeliveries()), "legacy" if era == "initialize" else era, open_it=False)
                )
                await _open(line, era, version)
                peer: Peer = line
            case "stdio":
                peer = await stack.enter_async_context(_on_pipes(node, era, version))
            case "http":
                url = await stack.enter_async_context(_on_http(node))
                peer = await stack.enter_async_context(http_peer(url, TOKEN))
            case _:
                url = await stack.enter_async_context(_on_http(node))
                expectation = parse(["contract-box"])
                remote = RemoteNode(read_url(url), token=lambda: TOKEN, expectation=expectation)
                await stack.enter_async_context(remote)
                peer = await stack.enter_async_context(_on_pipes(remote, era, version))
        yield Arranged(kind, peer, node, registry, work, record)
        work.release.set()
    await node.aclose(5)


@asynccontextmanager
async def _on_pipes(node: Node, era: str, version: str | None) -> AsyncIterator[LinePeer]:
    async with on_pipes(lambda deliveries: _server(node, deliveries), era) as peer:
        await _open(peer, era, version)
        yield peer


async def _open(peer: LinePeer, era: str, version: str | None) -> None:
    if era == "initialize" and version is not None:
        await shake_hands(peer, version)


@asynccontextmanager
async def served_on_http() -> AsyncIterator[tuple[int, LocalNode]]:
    """A controller's node behind its gates on a socket, for what a raw client says to it; give its port."""
    node = LocalNode(Registry(), allowlist([]), MemoryRecord())
    async with _on_http(node) as url:
        yield int(url.rpartition(":")[2].partition("/")[0]), node
    await node.aclose(0)


@asynccontextmanager
async def on_pipes(make: Callable[[StdioDeliveries], NodeServer], era: str, **more: Any) -> AsyncIterator[LinePeer]:
    """Serve on a pair of real pipes, in this process; give a peer at their other ends."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out_read, "rb", 0)
    )
    writing = os.fdopen(in_write, "wb", 0)
    deliveries = StdioDeliveries()
    serving = asyncio.create_task(
        serve_stdio(
            make(deliveries), deliveries=deliveries, stdin=in_read, stdout=out_write, handle_signals=False, **more
        )
    )

    async def write(data: bytes) -> None:
        await asyncio.to_thread(writing.write, data)

    peer = LinePeer(era, write)

    async def listen_to_it() -> None:
        while line := await reader.readline():
            peer.heard(line)

    listening = asyncio.create_task(listen_to_it())
    try:
        yield peer
    finally:
        writing.close()
        async with asyncio.timeout(20):
            await serving
        os.close(in_read)
        os.close(out_write)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        reading.close()


@asynccontextmanager
async def _on_http(node: LocalNode) -> AsyncIterator[str]:
    server = _server(
        node,
        HttpDeliveries(),
        caller_of=lambda ctx: caller_of(scope_of(ctx)),
        trace_of=lambda ctx: trace_of(scope_of(ctx)),
        if_dropped=Cause.ABANDONED,
        answers_to=("contract-box", __version__),
    )
    endpoint = Endpoint(server)
    bind = binding.assess("127.0.0.1", 0)
    app = boundary(
        endpoint,
        Settings(controller=ControllerSettings()),
        bind,
        draining=Draining(),
        ready=node.ready,
        authenticate=lambda token: CALLER if token == TOKEN else None,
    )
    sockets = listen(bind.addresses)
    listener = Listener(app, protocol=limited_protocol(ConnectionLimits(), ConnectionCounts()))
    serving = asyncio.create_task(listener.serve(sockets=sockets))
    await listener.ready.wait()
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp"
    finally:
        endpoint.close_streams()
        listener.should_exit = True
        await serving


__all__ = ["ARRANGEMENTS", "Arranged", "HttpPeer", "arranged", "on_pipes"]
