"""Every gate in its order around an application that echoes, on a real socket.

The order is the assembly's own: tests must not have a second one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bascule import binding
from bascule.assembly.controller import boundary
from bascule.gates.connections import ConnectionCounts, ConnectionLimits, limited_protocol
from bascule.gates.drain import Draining
from bascule.identity import Caller, caller_of
from bascule.listener import Listener, listen
from bascule.settings import ControllerSettings, Settings


class Echo:
    """Stands where the endpoint stands: answers who asked and what came."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.release.set()
        self.gone = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        self.entered.set()
        await self.release.wait()
        body = caller_of(scope).name.encode() + b" " + message["body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


@dataclass
class Boundary:
    """A running boundary."""

    port: int
    echo: Echo
    draining: Draining
    counts: ConnectionCounts
    ready: list[bool] = field(default_factory=lambda: [True])


@asynccontextmanager
async def boundary_on_a_socket(
    tmp_path: Path,
    *,
    limits: ConnectionLimits | None = None,
    reach: binding.Reach = binding.Reach.LOOPBACK,
    **controller: Any,
) -> AsyncIterator[Boundary]:
    """Listen on a free port of loopback with `[controller]` settings as given."""
    settings = Settings(controller=ControllerSettings(**controller))
    own = settings.controller
    bind = binding.Bind(own.host, (("127.0.0.1", 0),), reach)
    made = Boundary(0, Echo(), Draining(), ConnectionCounts())

    async def ready() -> bool:
        return made.ready[0]

    app = boundary(
        made.echo,
        settings,
        bind,
        draining=made.draining,
        ready=ready,
        authenticate=lambda token: Caller("owner") if token == "good" else None,
    )
    sockets = listen(bind.addresses)
    listener = Listener(app, protocol=limited_protocol(limits or ConnectionLimits(), made.counts))
    serving = asyncio.create_task(listener.serve(sockets=sockets))
    await listener.ready.wait()
    made.port = sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.echo.release.set()
        listener.should_exit = True
        await serving
