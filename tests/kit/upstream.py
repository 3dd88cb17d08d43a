"""An upstream that answers 2026-07-28 as a script says, on a raw socket: right, late, half, wrong, or not at all.

No SDK server would misbehave like this.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

IDENTITY = {"name": "up-box", "version": "1.0.0"}
ECHO = {
    "name": "echo",
    "description": "x",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}
CHANGE = {**ECHO, "name": "change", "annotations": {"readOnlyHint": False}}


@dataclass
class Upstream:
    """What it says, and what it heard."""

    identity: dict[str, str] = field(default_factory=lambda: dict(IDENTITY))
    tools: list[Any] = field(default_factory=lambda: [ECHO, CHANGE])
    token: str = "good"
    raw: Callable[[dict[str, Any]], bytes | None] | None = None
    """Bytes that stand in for the answer to a call; b"" closes at once, None answers properly."""
    play: Callable[[dict[str, Any], asyncio.StreamWriter], Awaitable[bool]] | None = None
    """Takes over the answer to a call, in its own time; returns whether the connection lives on."""
    pages: int = 0
    """Tools of one page; 0 lists them all at once, -1 ignores every cursor."""
    listeners: list[asyncio.StreamWriter] = field(default_factory=list)
    """Standing streams, acknowledged."""
    tls: ssl.SSLContext | None = None
    heard: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)
    port: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [body for _, body in self.heard if body["method"] == "tools/call"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                fields = {
                    n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head.split("\r\n")[1:] if line)
                }
                body = json.loads(await reader.readexactly(int(fields["content-length"])))
                self.heard.append((fields, body))
                if not await self._answer(fields, body, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.gone.set()
            writer.close()

    async def _answer(self, fields: dict[str, str], body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        if fields.get("authorization") != f"Bearer {self.token}":
            writer.write(response(401, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no"}}))
            await writer.drain()
            return True
        if body["method"] == "tools/call" and self.raw is not None and (data := self.raw(body)) is not None:
            writer.write(data)
            await writer.drain()
            return False
        if body["method"] == "tools/call" and self.play is not None:
            return await self.play(body, writer)
        if body["method"] == "subscriptions/listen":
            acknowledged = {"notifications": {"toolsListChanged": True}, **_subscription(body)}
            writer.write(sse_head() + event("notifications/subscriptions/acknowledged", acknowledged))
            self.listeners.append(writer)
            await asyncio.Event().wait()
        writer.write(response(200, {"jsonrpc": "2.0", "id": body["id"], "result": self._result(body)}))
        await writer.drain()
        return True

    def _result(self, body: dict[str, Any]) -> dict[str, Any]:
        meta = {"_meta": {"io.modelcontextprotocol/serverInfo": self.identity}, "resultType": "complete"}
        match body["method"]:
            case "server/discover":
                return {
                    **meta,
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "ttlMs": 0,
                    "cacheScope": "private",
                }
            case "tools/list":
                return {**meta, **self._page(body), "ttlMs": 30_000, "cacheScope": "private"}
            case _:
                text = body["params"]["arguments"].get("text", "")
                return {
                    **meta,
                    "content": [{"type": "text", "text": text, "x-unknown": [1, None]}],
                    "x-more": {"b": 1, "a": 2},
                }

    def _page(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.pages < 0:
            return {"tools": self.tools, "nextCursor": "again"}
        start = int(body["params"].get("cursor", 0))
        end = start + (self.pages or len(self.tools))
        return {"tools": self.tools[start:end]} | ({"nextCursor": str(end)} if end < len(self.tools) else {})

    def announce(self) -> None:
        """Say on every standing stream that the list of tools changed."""
        listens = (body for _, body in self.heard if body["method"] == "subscriptions/listen")
        for body, writer in zip(listens, self.listeners, strict=False):
            writer.write(event("notifications/tools/list_changed", _subscription(body)))


def _subscription(body: dict[str, Any]) -> dict[str, Any]:
    return {"_meta": {"io.modelcontextprotocol/subscriptionId": body["id"]}}


def sse_head() -> bytes:
    """The head of an event stream that ends with its connection."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def event(method: str, params: dict[str, Any]) -> bytes:
    """One notification as an event."""
    return (
        b"event: message\ndata: "
        + json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()
        + b"\n\n"
    )


def answer_event(body: dict[str, Any], result: dict[str, Any]) -> bytes:
    """The answer to `body` as an event."""
    message = {"jsonrpc": "2.0", "id": body["id"], "result": {"resultType": "complete", **result}}
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"


def response(status: int, message: Any, *more: str) -> bytes:
    """A whole HTTP answer."""
    body = json.dumps(message).encode()
    fields = ["content-type: application/json", f"content-length: {len(body)}", *more]
    return f"HTTP/1.1 {status} X\r\n".encode() + "\r\n".join(fields).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def upstream(port: int = 0, **says: Any) -> AsyncIterator[Upstream]:
    """Run one."""
    made = Upstream(**says)
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.is_serving():
            tasks[asyncio.ensure_future(made.serve(reader, writer))] = writer
        else:
            writer.transport.abort()  # taken in the moment it was closed

    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=made.tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        for listening in server.sockets:
            server.get_loop().remove_reader(listening.fileno())
        for _ in range(5):
            await asyncio.sleep(0)  # asyncio 3.11 leaks a connection that it took while its server is being closed
        server.close()
        for task, writer in tasks.items():
            task.cancel()
            writer.transport.abort()  # a task that never began closes nothing
        await asyncio.gather(*tasks, return_exceptions=True)
