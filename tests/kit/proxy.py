"""A reverse proxy that keeps Host and strips a mount, as people put one in front of a controller.

It forwards bytes as they come; TLS and headers of its own are left out, and the bearer passes through it untouched.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mount: bytes) -> None:
    """Forward each request of one connection with its mount stripped; bodies by their Content-Length."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            line, _, fields = head.partition(b"\r\n")
            method, target, version = line.split(b" ")
            if not target.startswith(mount + b"/"):
                raise ConnectionError(f"not under the mount: {target!r}")
            writer.write(b" ".join((method, target[len(mount) :], version)) + b"\r\n" + fields)
            lengths = [f for f in fields.lower().split(b"\r\n") if f.startswith(b"content-length:")]
            if lengths:
                writer.write(await reader.readexactly(int(lengths[0][15:])))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


@asynccontextmanager
async def reverse_proxy(target_port: int, *, mount: str = "/machine") -> AsyncIterator[int]:
    """Run the proxy in front of 127.0.0.1:`target_port`; give its own port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", target_port)
        await asyncio.gather(_requests(reader, up_writer, mount.encode()), _pump(up_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024 * 1024)
    async with server:
        yield server.sockets[0].getsockname()[1]
        server.close_clients() if hasattr(server, "close_clients") else None
