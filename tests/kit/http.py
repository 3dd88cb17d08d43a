"""A raw HTTP/1.1 client on a socket: says exactly the bytes it is given, and tells what came back and whether it closed.

No HTTP library would send what these tests send.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kit.until import PATIENCE


@dataclass
class Response:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    closed: bool
    """Whether the peer closed the connection after it."""

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The JSON-RPC error a refusal must be."""
        assert self.headers["content-type"] == "application/json"
        message = self.json()
        assert message["jsonrpc"] == "2.0"
        assert "id" in message
        return dict(message["error"])


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def hear(self, *, head: bool = False) -> Response:
        """Read one answer; with `head` the answer has no body."""
        async with asyncio.timeout(PATIENCE):
            line, *rest = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {n.lower(): v.strip() for n, _, v in (field.partition(":") for field in rest if field)}
            body = b"" if head else await self._reader.readexactly(int(headers.get("content-length", 0)))
            closed = False
            if headers.get("connection") == "close":
                assert await self._reader.read() == b""
                closed = True
        return Response(int(line.split()[1]), headers, body, closed)

    async def closed(self) -> bytes:
        """Return what is still said until the peer closes."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


def request(
    *,
    method: str = "POST",
    target: str = "/mcp",
    body: bytes = b"{}",
    drop: tuple[str, ...] = (),
    **fields: str | list[str],
) -> bytes:
    """A request that every gate passes, changed as asked: `drop` takes fields out, keywords set them."""
    told: dict[str, str | list[str]] = {
        "host": "127.0.0.1",
        "authorization": "Bearer good",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "content-length": str(len(body)),
    }
    told |= {name.replace("_", "-"): value for name, value in fields.items()}
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in told.items():
        if name not in drop:
            lines += [f"{name}: {one}" for one in (value if isinstance(value, list) else [value])]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
