"""Serves one ASGI application on sockets that are already bound, until it is told to stop.

Signals, draining and what the application is are left to `assembly`; connection limits to `gates.connections`.
"""

import asyncio
import contextlib
import socket
from collections.abc import Generator, Sequence
from typing import Any, Final

import uvicorn

KEEP_ALIVE: Final = 30
"""Seconds an idle connection is kept: longer than our own client keeps one, so that the client closes first."""

STOP_GRACE: Final = 1
"""Seconds for answers that are being written when the listener stops; the work itself was drained before."""

BACKLOG: Final = 256
"""Connections the kernel queues: a burst of agents must not meet a reset."""


class Listener(uvicorn.Server):
    """A uvicorn server that leaves signals alone and says when it is ready."""

    def __init__(self, app: Any, *, protocol: type[asyncio.Protocol]) -> None:
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            loop="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=STOP_GRACE,
            backlog=BACKLOG,
        )
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take no signal: uvicorn would stop without draining."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting, then set `ready`."""
        await super().startup(sockets=sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, give answers their grace, then drop what is still connected: idle, stalled, half open."""
        await super().shutdown(sockets=sockets)
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()


def listen(addresses: Sequence[tuple[Any, ...]]) -> list[socket.socket]:
    """Bind one socket per checked address; with port 0 they all get the port the first one was given.

    Raises:
        OSError: an address cannot be bound, as when its port is taken. None is left open then.
    """
    opened: list[socket.socket] = []
    try:
        for host, port, *rest in addresses:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            chosen = opened[0].getsockname()[1] if port == 0 and opened else port
            opened.append(_bound(family, (host, chosen, *rest)))
    except OSError:
        for one in opened:
            one.close()
        raise
    return opened


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    # SO_REUSEADDR lets a restarted controller have its port back at once; it does not share a port that is served.
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.listen(BACKLOG)
        one.setblocking(False)
    except OSError:
        one.close()
        raise
    return one
