"""The floor for the controller: the SDK's low-level server in SSE mode with the schema hook, echo operations only.

Gates, policy and record are left out on purpose: they are what the controller adds. Usage: bare_server.py TOOLS.
"""

import contextlib
import socket
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def tool(number: int) -> types.Tool:
    name = "bench_echo" if number == 0 else f"bench_echo{number}"
    return types.Tool(name=name, description="Answer with the same text.", input_schema=SCHEMA)


async def call(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {})["text"])
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content)


def main() -> None:
    tools = [tool(number) for number in range(int(sys.argv[1]))]

    async def listing(_ctx: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    server = Server(
        "bare", version="1", on_list_tools=listing, on_call_tool=call, get_tool_input_schema=lambda _name: None
    )
    manager = StreamableHTTPSessionManager(server, json_response=False)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            async with contextlib.AsyncExitStack() as stack:
                await receive()
                await stack.enter_async_context(manager.run())
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await manager.handle_request(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, http="httptools", loop="uvloop", log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
