"""Two small agents for the demo: one speaks the initialize era, one 2026-07-28, both line by line on stdio.

They are written out by hand so that a reader sees the wire; what they are asked to do is left to `demo`.
"""

import asyncio
import json
from typing import Any, Final, Protocol

_OURS: Final = {"name": "demo-agent", "version": "1"}


def text_of(result: dict[str, Any]) -> str:
    """Return the text an agent would read in a tool's result, or the error in its place."""
    texts = [block.get("text", "") for block in result.get("content", []) if block.get("type") == "text"]
    return "\n".join(texts) or json.dumps(result)


class Agent(Protocol):
    """What the demo asks of an agent, whatever era it speaks."""

    async def open(self) -> str:
        """Open the conversation; return what was agreed, in words."""
        ...

    async def tools(self) -> list[str]:
        """Return the names of the tools it is offered."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its result."""
        ...

    async def start(self, name: str, arguments: dict[str, Any]) -> int:
        """Send a call without waiting; return its request id."""
        ...

    async def cancel(self, request_id: int) -> None:
        """Cancel what `start` sent."""
        ...


class _Lines:
    """One JSON-RPC message a line, out and in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._last_id = 0

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self._writer.drain()

    async def request(self, method: str, params: dict[str, Any]) -> int:
        self._last_id += 1
        await self.send({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        request_id = await self.request(method, params)
        while line := await self._reader.readline():
            message = json.loads(line)
            if message.get("id") == request_id and "method" not in message:
                result = message.get("result")
                return result if isinstance(result, dict) else {"isError": True, "error": message.get("error")}
        raise ConnectionError("the bridge hung up")


class InitializeEraAgent:
    """Opens with `initialize`, as every client before 2026-07-28 does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines = _Lines(reader, writer)

    async def open(self) -> str:
        """Open with the handshake."""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _OURS}
        answer = await self._lines.ask("initialize", hello)
        await self._lines.send({"method": "notifications/initialized"})
        return f"initialize: revision {answer.get('protocolVersion')} with {answer.get('serverInfo', {}).get('name')}"

    async def tools(self) -> list[str]:
        """List them."""
        return [tool["name"] for tool in (await self._lines.ask("tools/list", {})).get("tools", [])]

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call one."""
        return await self._lines.ask("tools/call", {"name": name, "arguments": arguments})

    async def start(self, name: str, arguments: dict[str, Any]) -> int:
        """Start one."""
        return await self._lines.request("tools/call", {"name": name, "arguments": arguments})

    async def cancel(self, request_id: int) -> None:
        """Cancel it."""
        await self._lines.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})


class ModernAgent:
    """Needs no handshake: each request carries its revision and who it is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines = _Lines(reader, writer)

    async def open(self) -> str:
        """Ask who is there."""
        answer = await self._lines.ask("server/discover", self._enveloped({}))
        return f"server/discover: {', '.join(answer.get('supportedVersions', []))}, no session"

    async def tools(self) -> list[str]:
        """List them."""
        return [tool["name"] for tool in (await self._lines.ask("tools/list", self._enveloped({}))).get("tools", [])]

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call one."""
        return await self._lines.ask("tools/call", self._enveloped({"name": name, "arguments": arguments}))

    async def start(self, name: str, arguments: dict[str, Any]) -> int:
        """Start one."""
        return await self._lines.request("tools/call", self._enveloped({"name": name, "arguments": arguments}))

    async def cancel(self, request_id: int) -> None:
        """Cancel it."""
        params = self._enveloped({"requestId": request_id})
        await self._lines.send({"method": "notifications/cancelled", "params": params})

    def _enveloped(self, params: dict[str, Any]) -> dict[str, Any]:
        prefix = "io.modelcontextprotocol/"
        return params | {
            "_meta": {
                prefix + "protocolVersion": "2026-07-28",
                prefix + "clientInfo": _OURS,
                prefix + "clientCapabilities": {},
            }
        }
