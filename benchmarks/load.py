"""A light client: one process, raw keep-alive sockets, one request in flight on each.

What is measured is left to the caller; every answer is checked for its status and the echoed text.
Usage: load.py PORT CONNECTIONS SECONDS TOOL (token in BASCULE_TOKEN); prints one JSON line.
"""

import asyncio
import json
import os
import sys
import time

import uvloop

TEXT = "the same text"


def request(port: int, tool: str) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": {"text": TEXT}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    token = os.environ.get("BASCULE_TOKEN", "")
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n"
        "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        f"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def worker(port: int, message: bytes, until: float, latencies: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (start := time.perf_counter()) < until:
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"unexpected answer: {head[:200]!r}")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        body = await reader.readexactly(length)
        if TEXT.encode() not in body or b'"isError":true' in body:
            raise SystemExit(f"unexpected body: {body[:300]!r}")
        latencies.append(time.perf_counter() - start)
    writer.close()


async def main(port: int, connections: int, seconds: float, tool: str) -> None:
    message = request(port, tool)
    latencies: list[float] = []
    start = time.perf_counter()
    await asyncio.gather(*(worker(port, message, start + seconds, latencies) for _ in range(connections)))
    took = time.perf_counter() - start
    latencies.sort()
    print(
        json.dumps(
            {
                "requests": len(latencies),
                "per_second": len(latencies) / took,
                "p50_ms": latencies[len(latencies) // 2] * 1000,
                "p99_ms": latencies[len(latencies) * 99 // 100] * 1000,
            }
        )
    )


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
