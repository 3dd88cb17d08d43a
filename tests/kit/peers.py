"""Raw JSON-RPC peers of both eras: what a client puts on a wire and what it gets back, as plain dictionaries.

Which server stands at the other end is left to `arrangements`; no SDK model touches the messages.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2
from mcp.shared.inbound import encode_header_value

from kit.until import PATIENCE

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
OURS = {"name": "contract", "version": "1"}


def enveloped(params: dict[str, Any]) -> dict[str, Any]:
    """`params` with the metadata that every 2026-07-28 request carries; the caller's own `_meta` is kept."""
    own = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientInfo": OURS, PREFIX + "clientCapabilities": {}}
    return params | {"_meta": own | params.get("_meta", {})}


class Peer(Protocol):
    """What the contract asks of a client, whatever its era and its wire."""

    era: str

    async def start(self, method: str, params: dict[str, Any]) -> Any: ...

    async def answer(self, ticket: Any) -> dict[str, Any]: ...

    async def cancel(self, ticket: Any) -> None: ...

    @property
    def notifications(self) -> list[dict[str, Any]]: ...


@dataclass
class LinePeer:
    """A client on a pipe, one message a line. `send` and the lines given to `heard` are the two directions."""

    era: str
    write: Callable[[bytes], Awaitable[None]]
    notifications: list[dict[str, Any]] = field(default_factory=list)
    _waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    _last: int = 0

    def heard(self, line: bytes) -> None:
        message = json.loads(line)
        if "method" in message:
            self.notifications.append(message)
            return
        waiting = self._waiting.get(message["id"])
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self._send({"jsonrpc": "2.0", "method": method, "params": self._dressed(params)})

    async def start(self, method: str, params: dict[str, Any]) -> int:
        self._last += 1
        self._waiting[self._last] = asyncio.get_running_loop().create_future()
        await self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": self._dressed(params)})
        return self._last

    async def answer(self, ticket: int) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            answer = await self._waiting[ticket]
        del self._waiting[ticket]
        return answer

    async def cancel(self, ticket: int) -> None:
        self._waiting.pop(ticket).cancel()
        await self.notify("notifications/cancelled", {"requestId": ticket, "reason": "contract"})

    async def _send(self, message: dict[str, Any]) -> None:
        await self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def _dressed(self, params: dict[str, Any]) -> dict[str, Any]:
        return enveloped(params) if self.era == "modern" else params


async def shake_hands(peer: LinePeer, version: str = "2025-11-25") -> None:
    """Open the initialize era."""
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": OURS}
    answer = await peer.answer(await peer.start("initialize", hello))
    assert answer["result"]["protocolVersion"] == version
    await peer.notify("notifications/initialized", {})


@dataclass
class HttpPeer:
    """A client of 2026-07-28 over HTTP: one POST a request, closed to cancel."""

    url: str
    token: str
    client: httpx2.AsyncClient
    era: str = "modern"
    notifications: list[dict[str, Any]] = field(default_factory=list)
    _last: int = 0

    async def start(self, method: str, params: dict[str, Any]) -> asyncio.Task[dict[str, Any]]:
        self._last += 1
        return asyncio.create_task(self._post({"jsonrpc": "2.0", "id": self._last, "method": method}, params))

    async def answer(self, ticket: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            return await ticket

    async def cancel(self, ticket: asyncio.Task[dict[str, Any]]) -> None:
        ticket.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticket

    async def _post(self, message: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        fields = {
            "authorization": f"Bearer {self.token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": message["method"],
        }
        if message["method"] == "tools/call":
            fields["mcp-name"] = encode_header_value(params["name"])
        body = message | {"params": enveloped(params)}
        async with self.client.stream("POST", self.url, json=body, headers=fields, timeout=PATIENCE) as response:
            if response.headers["content-type"].startswith("text/event-stream"):
                return await self._last_event(response)
            await response.aread()
            return dict(response.json())

    async def _last_event(self, response: httpx2.Response) -> dict[str, Any]:
        async for line in response.aiter_lines():
            if not line.startswith("data:"):
                continue
            message = json.loads(line[5:])
            if "method" not in message:
                return dict(message)
            self.notifications.append(message)
        raise ConnectionError("the stream ended without an answer")


@asynccontextmanager
async def http_peer(url: str, token: str) -> AsyncIterator[HttpPeer]:
    """A client of its own for `url`."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield HttpPeer(url, token, client)


async def ask(peer: Peer, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send one request and return the whole answering message."""
    return await peer.answer(await peer.start(method, params or {}))


async def call(peer: Peer, name: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
    """Call a tool and return its result; the message must not be an error."""
    params: dict[str, Any] = {"name": name}
    if arguments is not None:
        params["arguments"] = arguments
    if meta:
        params["_meta"] = meta
    message = await ask(peer, "tools/call", params)
    assert "result" in message, message
    return dict(message["result"])


def words(result: dict[str, Any]) -> str:
    """The text an agent reads."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
