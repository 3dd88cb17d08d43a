"""The bridge's way to one MCP server: raw requests over the SDK's client, pinned to 2026-07-28.

What HTTP does is left to `exchange`, where connections go to `addresses`, what an answer means to `remote`.

One dispatcher and one HTTP client serve every request, because a pair for each would cost a third of a call. What keeps
calls apart is the context variable of `exchange`: the SDK carries the context of the task that sent a request to
everything that comes back on its stream.
"""

import asyncio
import contextlib
import contextvars
import itertools
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import httpcore2
import httpx2
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
)

from bascule.protocol.addresses import CheckedBackend, Target
from bascule.protocol.exchange import MAX_BODY, Exchange, Failure, Kind, Notice, Transport, current, exchanging

VERSION: Final = "2026-07-28"
"""The one revision spoken between bridge and controller (decision 2)."""

CONNECT: Final = 5.0
"""Seconds to resolve, connect and start TLS: a private network needs milliseconds; slower is down."""

SILENCE: Final = 45.0
"""Seconds without a byte after which a connection is dead: three missed pings of the SDK's server (15 s)."""

MAX_CONNECTIONS: Final = 256
"""To one controller: as many as a pipe has requests in flight, half of what a controller takes from everybody."""

KEEP_ALIVE: Final = 4.0
"""Seconds an idle connection is kept: below the 5 s after which common servers close theirs, so none is raced."""

RESERVED: Final = "io.modelcontextprotocol/"
"""`_meta` keys of the protocol itself; ours, whatever a client wrote there."""

LOG_LEVEL: Final = RESERVED + "logLevel"
"""The one reserved key that is the asking client's to choose."""

_log: Final = logging.getLogger("bascule.protocol.link")


class LinkError(Exception):
    """A request got no answer. `failure` says how; its text is fit for a peer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.cause)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it goes out."""

    method: str
    params: dict[str, Any]
    """Its `_meta` without the protocol's own keys, which the link adds."""
    timeout: float | None
    """Seconds for the whole answer; None for a stream that stands."""
    headers: Mapping[str, str]
    notice: Notice | None = None
    """Gets the notifications on this request's own stream, in order, numbers as they came."""


class Link:
    """Connections to one server. Enter it in the loop it serves; requests may overlap without touching each other."""

    def __init__(
        self,
        target: Target,
        token: Callable[[], str],
        *,
        client: tuple[str, str],
        backend: CheckedBackend | None = None,
        tls: ssl.SSLContext | None = None,
        silence: float = SILENCE,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            target: where to.
            token: gives the bearer anew for each request.
            client: name and version this side calls itself.
            backend: opens connections.
            tls: verifies certificates; the system's trust where None.
            silence: seconds without a byte that end an exchange.
        """
        self.target = target
        self._token, self._tls, self._silence = token, tls, silence
        self._backend = backend or CheckedBackend()
        self._stamp = {
            PROTOCOL_VERSION_META_KEY: VERSION,
            CLIENT_INFO_META_KEY: {"name": client[0], "version": client[1]},
            CLIENT_CAPABILITIES_META_KEY: {},
        }
        self._tokens = itertools.count(1)
        self._started: asyncio.Future[JSONRPCDispatcher] | None = None
        self._running: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Link to {self.target.url}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

    def new_progress_token(self) -> int:
        """Return a token for one request's progress, unique on this link; never the asking client's."""
        return next(self._tokens)

    async def send(self, request: Request) -> dict[str, Any]:
        """Send `request` and return its result, nothing dropped. Cancelling closes its stream, which cancels it there.

        Raises:
            LinkError: no answer, or one of HTTP instead of MCP.
            MCPError: the server's JSON-RPC error.
        """
        exchange = Exchange(notice=request.notice)
        options: CallOptions = {"headers": self._headers(request)}
        if request.timeout is not None:
            options["timeout"] = request.timeout
        params = {**request.params, "_meta": {**request.params.get("_meta", {}), **self._stamp}}
        async with exchanging(exchange):
            dispatcher = await self._ready()
            try:
                return await dispatcher.send_raw_request(request.method, params, options)
            except MCPError as error:
                raise _typed(exchange, error, request) from None

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {MCP_PROTOCOL_VERSION_HEADER: VERSION, MCP_METHOD_HEADER: request.method, **request.headers}
        named = NAME_BEARING_METHODS.get(request.method)
        if named is not None:
            headers[MCP_NAME_HEADER] = encode_header_value(str(request.params[named]))
        return headers

    async def _ready(self) -> JSONRPCDispatcher:
        """Return the dispatcher, started again should it ever have ended; requests that come meanwhile share the start."""
        if self._started is None or self._running is None or self._running.done():
            started = self._started = asyncio.get_running_loop().create_future()
            # An empty context: what no request asked for must not ride on the first one's exchange.
            self._running = asyncio.create_task(self._run(started), context=contextvars.Context())
            self._running.add_done_callback(lambda ended: _never_started(started, ended))
        return await asyncio.shield(self._started)

    async def _run(self, started: "asyncio.Future[JSONRPCDispatcher]") -> None:
        async with (
            self._http() as http,
            streamable_http_client(
                self.target.url, http_client=http, terminate_on_close=False, max_sse_event_size=MAX_BODY
            ) as (read, write),
        ):
            dispatcher: JSONRPCDispatcher = JSONRPCDispatcher(read, write)
            await dispatcher.run(_refuse, _notify, task_status=_Started(started, dispatcher))

    def _http(self) -> httpx2.AsyncClient:
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE,
            network_backend=self._backend,
        )
        wait = httpx2.Timeout(connect=CONNECT, read=self._silence, write=self._silence, pool=CONNECT)
        return httpx2.AsyncClient(
            transport=Transport(pool, self._token), trust_env=False, follow_redirects=False, timeout=wait
        )


class _Started:
    """Tells the waiting request that the dispatcher runs (the SDK reports it as anyio's task status)."""

    def __init__(self, future: "asyncio.Future[JSONRPCDispatcher]", dispatcher: JSONRPCDispatcher) -> None:
        self._future, self._dispatcher = future, dispatcher

    def started(self, value: None = None) -> None:
        if not self._future.done():
            self._future.set_result(self._dispatcher)


def _never_started(started: "asyncio.Future[JSONRPCDispatcher]", ended: "asyncio.Task[None]") -> None:
    if not started.done():
        started.set_exception(LinkError(Failure(Kind.UNREACHABLE, "the client could not be started", sent=False)))
    if not ended.cancelled() and (error := ended.exception()) is not None:
        _log.error("the MCP client ended and is started again at the next request: %s", type(error).__name__)


def _typed(exchange: Exchange, error: MCPError, request: Request) -> Exception:
    """Return what really happened: a failed exchange, a loss that the SDK saw, or the server's own error."""
    if exchange.failure is not None:
        return LinkError(exchange.failure)
    if error.code == REQUEST_TIMEOUT and not exchange.answered:
        return LinkError(Failure(Kind.LOST, f"no answer within {request.timeout or 0:g} s", sent=True))
    if error.code == CONNECTION_CLOSED and not exchange.answered:
        return LinkError(Failure(Kind.LOST, "its stream ended before the answer", sent=True))
    return MCPError(error.code, exchange.scrubbed(error.message), error.data)


async def _refuse(
    _context: DispatchContext[TransportContext], _method: str, _params: Mapping[str, Any] | None
) -> dict[str, Any]:
    raise MCPError(METHOD_NOT_FOUND, "Method not found")


async def _notify(_context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None) -> None:
    exchange = current.get()
    if exchange is not None and exchange.notice is not None:
        exchange.notice(method, dict(params or {}))
