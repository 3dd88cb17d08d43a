"""The floor for the bridge: the SDK's stdio server in front of the SDK's client, and nothing of ours.

Identity, validation, framing limits and failures in words are left out on purpose. Usage: reference_bridge.py URL.
"""

import os
import sys
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def main(url: str) -> None:
    headers = {"Authorization": "Bearer " + os.environ["BASCULE_TOKEN"]}
    timeout = httpx2.Timeout(30, read=300)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http), mode="2026-07-28", cache=None) as client,
    ):

        async def listing(_ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
            return await client.list_tools(cursor=params.cursor if params else None)

        async def call(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            return await client.call_tool(params.name, params.arguments)

        server = Server("reference", version="1", on_list_tools=listing, on_call_tool=call)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
