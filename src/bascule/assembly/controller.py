"""Settings become a controller: its parts are made, put in order, started and stopped.

What each part does is its own; the other program, the bridge, is put together in `bridge`.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bascule import __version__, binding
from bascule.assembly.loop import run
from bascule.assembly.operations import registry
from bascule.callers import CallersFile
from bascule.gates.accept import AcceptGate
from bascule.gates.admission import Admission, AdmissionGate
from bascule.gates.bearer import BearerGate
from bascule.gates.body import BodyGate
from bascule.gates.browser import BrowserGate
from bascule.gates.connections import ConnectionCounts, ConnectionLimits, limited_protocol
from bascule.gates.drain import DrainGate, Draining
from bascule.gates.gate import App, Gate, through
from bascule.gates.health import Health
from bascule.gates.host import HostGate
from bascule.gates.http_only import HttpOnlyGate
from bascule.gates.json_body import JsonBodyGate
from bascule.gates.media_type import MediaTypeGate
from bascule.gates.method import MethodGate
from bascule.gates.origin import OriginGate
from bascule.gates.path import PathGate
from bascule.gates.peer import PeerGate
from bascule.gates.trace import TraceGate, trace_of
from bascule.identity import Caller, caller_of
from bascule.listener import Listener, listen
from bascule.node.capability import Capability
from bascule.node.local import LocalNode
from bascule.node.rules import allowlist
from bascule.node.terms import Cause
from bascule.platform import processes
from bascule.platform.files import make_private_dir
from bascule.protocol.delivery import HttpDeliveries, scope_of
from bascule.protocol.endpoint import Endpoint
from bascule.protocol.server import NodeServer
from bascule.settings import Settings
from bascule.store.sqlite import SqliteRecord, read_entries

RECORD: Final = "bascule.sqlite3"
"""The store's file, in the state folder."""

INSTRUCTIONS: Final = (
    "Operations of one machine, as its owner allows them. Operations that change something need `confirm: true`; "
    "`dry_run: true` shows what they would do."
)

EVERYONE: Final = Caller("everyone")
"""Stands for all callers where list changes are watched: rules are the same for all of them in this version."""

_log: Final = logging.getLogger("bascule")


class PortTakenError(Exception):
    """The address cannot be bound; the text says how to pick another."""


@dataclass(frozen=True, slots=True)
class Controller:
    """Everything of one controller that is started and stopped together."""

    node: LocalNode
    endpoint: Endpoint
    app: App
    draining: Draining
    counts: ConnectionCounts


def controller(settings: Settings, bind: binding.Bind, *, extra: Sequence[Capability] = ()) -> Controller:
    """Put a controller together; nothing listens yet.

    Raises:
        SettingsError: the settings cannot be put to work.
        StoreUnavailableError: the record cannot be kept, so nothing may be done.
    """
    registered = registry(settings, extra)
    make_private_dir(settings.state)
    node = LocalNode(registered, allowlist(settings.policy.allow), SqliteRecord(settings.state / RECORD))
    server = NodeServer(
        node,
        name=settings.controller.name,
        version=__version__,
        instructions=INSTRUCTIONS,
        caller_of=lambda ctx: caller_of(scope_of(ctx)),
        trace_of=lambda ctx: trace_of(scope_of(ctx)),
        deliveries=HttpDeliveries(),
        if_dropped=Cause.ABANDONED,
        watched_as=EVERYONE,
        answers_to=(settings.controller.name, __version__),
    )
    endpoint, draining = Endpoint(server), Draining()
    callers = CallersFile(settings.callers_file)
    app = boundary(endpoint, settings, bind, draining=draining, ready=node.ready, authenticate=callers.authenticate)
    return Controller(node, endpoint, app, draining, ConnectionCounts())


def boundary(
    endpoint: Endpoint,
    settings: Settings,
    bind: binding.Bind,
    *,
    draining: Draining,
    ready: Callable[[], Awaitable[bool]],
    authenticate: Callable[[str], Caller | None],
) -> App:
    """Return the endpoint behind its gates, in the order of `docs/architecture.md`; health answers between 10 and 11."""
    own = settings.controller
    outer: list[Gate] = [
        HttpOnlyGate,
        TraceGate,
        PathGate,
        partial(PeerGate, private=bind.reach is binding.Reach.PRIVATE, public=own.public_bind),
        partial(OriginGate, origins=own.origins),
        BrowserGate,
        partial(HostGate, bind=own.host, hosts=own.hosts),
        partial(BearerGate, authenticate=authenticate),
        partial(AdmissionGate, admission=Admission()),
        MethodGate,
        partial(Health, ready=ready),
        MediaTypeGate,
        AcceptGate,
        BodyGate,
        JsonBodyGate,
        partial(DrainGate, draining=draining),
    ]
    return through(outer, _with_lifespan(endpoint))


def _with_lifespan(endpoint: Endpoint) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await endpoint(scope, receive, send)
            return
        await receive()
        async with endpoint.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return app


def serve(settings: Settings, *, announce: Callable[[str], None], extra: Sequence[Capability] = ()) -> int:
    """Run a controller until a signal ends it; return the exit code.

    Raises:
        SettingsError, binding.BindRefusedError: nothing was started.
        PortTakenError: the address is in use.
        StoreUnavailableError: the record cannot be kept.
    """
    return run(_serve(settings, announce, extra))


async def _serve(settings: Settings, announce: Callable[[str], None], extra: Sequence[Capability]) -> int:
    own = settings.controller
    bind = binding.assess(own.host, own.port, public=own.public_bind)
    processes.become_subreaper()
    for missing in processes.missing_guarantees():
        _log.warning("this system gives no such guarantee: %s", missing)
    made = controller(settings, bind, extra=extra)
    try:
        sockets = listen(bind.addresses)
    except OSError as error:
        await made.node.aclose(0)
        raise PortTakenError(
            f"{own.host}:{own.port} cannot be bound ({os.strerror(error.errno or 0)}); pick another with --port, 0 for any"
        ) from None
    listener = Listener(made.app, protocol=limited_protocol(ConnectionLimits(), made.counts))
    serving = asyncio.ensure_future(listener.serve(sockets=sockets))
    stopped = _signalled()
    await _first(listener.ready.wait(), serving)
    announce(f"bascule controller listening on {_url(own.host, sockets[0].getsockname()[1])}")
    await _first(stopped.first.wait(), serving)
    await _drain(made, listener, serving, stopped, own.drain)
    return 0


async def _drain(
    made: Controller, listener: Listener, serving: "asyncio.Future[None]", stopped: "_Signals", budget: float
) -> None:
    """End a controller within its budget.

    1. New work is refused from now on.
    2. Standing streams end with their proper result.
    3. Running work gets what the budget allows, then is ended and recorded so. A second signal ends it at once.
    4. The listener stops; whatever is still connected is dropped.
    5. The record is closed last: what became of the last answers belongs into it.
    """
    made.draining.begin()  # 1
    made.endpoint.close_streams()  # 2
    closing = asyncio.ensure_future(made.node.drain(budget))  # 3
    hurry = asyncio.ensure_future(stopped.second.wait())
    await asyncio.wait({closing, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if not closing.done():
        made.node.stop_all(Cause.SHUTDOWN)
        await closing
    hurry.cancel()
    listener.should_exit = True  # 4
    await serving
    await made.node.aclose(0)  # 5


@dataclass(frozen=True, slots=True)
class _Signals:
    first: asyncio.Event
    second: asyncio.Event


def _signalled() -> _Signals:
    signals = _Signals(asyncio.Event(), asyncio.Event())

    def note() -> None:
        (signals.second if signals.first.is_set() else signals.first).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, note)
        except NotImplementedError:  # Windows: its loops take no handlers, signals come to the main thread
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(note))
    return signals


async def _first(*ends: Awaitable[Any]) -> None:
    """Wait for the first of these; an error of any that ended is raised."""
    futures = [asyncio.ensure_future(end) for end in ends]
    done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for future in pending - {futures[-1]}:
        future.cancel()
    for future in done:
        future.result()


def _url(host: str, port: int) -> str:
    shown = host.strip("[]")
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/mcp"


async def recent_record(state: Path, *, limit: int) -> list[str]:
    """Return the newest entries of the record in `state`, oldest first, a line each.

    Raises:
        StoreUnavailableError: there is none that can be read.
    """
    rows = await asyncio.to_thread(read_entries, state / RECORD, limit=limit)
    return [
        f"{row['caller']:<10.10} {row['operation']:<16.16} {row['verdict']:<6} {row['outcome'] or 'running':<12} "
        f"{row['category'] or '-':<20} {'delivered' if row['delivered'] == 'yes' else row['delivery_cause'] or '-'}"
        for row in rows
    ]
