"""The SDK's server over any Node: params in, one await, result out, and the last catch.

Dispatch, versions and message shapes are the SDK's; what happens in between is the node's; bytes are `stdio`'s and `endpoint`'s.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Literal

import mcp_types as types
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import methods
from pydantic import ValidationError

from bascule.identity import Caller
from bascule.node.node import Node
from bascule.node.terms import Category, Cause, Failed, Fault, JsonObject, JsonValue, Refused
from bascule.protocol import translate
from bascule.protocol.catalogue import Catalogue, InvalidCursorError, project
from bascule.protocol.delivery import Deliveries
from bascule.protocol.translate import Era
from bascule.protocol.versions import INITIALIZE_ERA, MODERN, refuse_initialize

LIST_TTL_MS: Final = 30_000
"""How long a 2026-07-28 client may keep a listing without asking: changes are announced besides."""

MAX_SUBSCRIPTIONS: Final = 64
"""Standing streams of one server; the gates hold each caller to fewer."""

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_log: Final = logging.getLogger("bascule.protocol")

Context = ServerRequestContext[Any, Any]


class NodeServer(Server[dict[str, Any]]):
    """An SDK server whose tools are a node's operations. One per pipe, or one per HTTP endpoint."""

    def __init__(
        self,
        node: Node,
        *,
        name: str,
        version: str,
        instructions: str = "",
        caller_of: Callable[[Context], Caller],
        deliveries: Deliveries,
        if_dropped: Cause,
        trace_of: Callable[[Context], str] = lambda _ctx: "",
        legacy_fallback: Literal["refuse", "offer"] = "refuse",
        watched_as: Caller | None = None,
    ) -> None:
        """Project `node`.

        Args:
            node: what is served.
            name: of the server, as peers see it.
            version: of the server, as peers see it.
            instructions: for the model, where its client shows them.
            caller_of: who asks, from the request's context; it raises where that is unknown.
            deliveries: where receipts of answers go.
            if_dropped: what it means when a request is cancelled under us.
            trace_of: the trace id of a request.
            legacy_fallback: what an unavailable version at `initialize` gets: a refusal, or the SDK's counter-offer.
            watched_as: the caller whose offer is watched for list changes; none are announced without one.
        """
        self._node, self._caller_of, self._trace_of = node, caller_of, trace_of
        self._deliveries, self._if_dropped = deliveries, if_dropped
        self._fallback, self._watched_as = legacy_fallback, watched_as
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus, max_subscriptions=MAX_SUBSCRIPTIONS)
        self._sessions: list[ServerSession] = []
        self._level = LEVELS[0]
        self._catalogues: dict[Caller, Catalogue] = {}
        super().__init__(
            name,
            version=version,
            instructions=instructions or None,
            lifespan=_watching,
            # Never a schema: it is asked before anyone is known to see the tool (architecture, rule 1).
            get_tool_input_schema=lambda _name: None,
            on_list_tools=_answered_by_middleware,
            on_call_tool=_answered_by_middleware,
            on_subscriptions_listen=self._listen,
        )
        self.middleware[:] = [self._answer]
        self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        self.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Say truthfully that list changes are announced; the SDK's default says they are not."""
        options = notification_options or NotificationOptions(tools_changed=self._watched_as is not None)
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    def close_streams(self) -> None:
        """End standing streams with their proper result, as a drain does first."""
        self._listen.close()

    async def watch(self) -> None:
        """Announce changes of the node's offer to whoever listens, until cancelled."""
        if self._watched_as is None:
            return
        async for _ in self._node.changes(self._watched_as):
            await self._bus.publish(ToolsListChanged())
            for session in list(self._sessions):
                await session.send_tool_list_changed()

    # -- the one middleware --

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer what is ours, pass on what is the SDK's, and let no exception's text out (rule: last catch)."""
        try:
            if ctx.method == "tools/call" and _opened(ctx):
                return await self._call(ctx)
            if ctx.method == "tools/list" and _opened(ctx):
                return await self._list(ctx)
            if ctx.method == "initialize":
                self._check_opening(ctx)
            return await call_next(ctx)
        except (MCPError, ValidationError):
            raise
        except Exception:  # noqa: BLE001 - the last catch: whatever it is, its text stays here
            _log.exception("%s failed inside the protocol server", ctx.method)
            raise MCPError(types.INTERNAL_ERROR, "Internal error") from None

    def _check_opening(self, ctx: Context) -> None:
        if ctx.protocol_version == MODERN:
            return  # the SDK refuses it by name
        if ctx.session.client_params is not None:
            raise MCPError(types.INVALID_REQUEST, "This connection is initialized already")
        requested = (ctx.params or {}).get("protocolVersion")
        if requested not in INITIALIZE_ERA and self._fallback == "refuse":
            raise refuse_initialize(requested)

    async def _list(self, ctx: Context) -> JsonObject:
        _validate(ctx, ctx.params)
        catalogue = await self._catalogue(self._caller_of(ctx))
        cursor = (ctx.params or {}).get("cursor")
        try:
            tools, following = catalogue.page(_era(ctx), cursor)
        except InvalidCursorError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        listing: JsonObject = {"tools": list(tools)} | ({"nextCursor": following} if following else {})
        if _era(ctx) is Era.INITIALIZE:
            return listing
        return self._stamped(listing | {"ttlMs": LIST_TTL_MS, "cacheScope": "private"})

    async def _call(self, ctx: Context) -> JsonObject:
        params = dict(ctx.params or {})
        arguments = params.get("arguments")
        # Arguments of the wrong type are a failure of the call, said by the node; the rest of the message must be sound.
        _validate(ctx, params if isinstance(arguments, dict) else {k: v for k, v in params.items() if k != "arguments"})
        caller = self._caller_of(ctx)
        catalogue = await self._catalogue(caller)
        name = catalogue.operation_of(params["name"])
        asked = translate.invocation(
            params, name=name, caller=caller, trace=self._trace_of(ctx), if_dropped=self._if_dropped
        )
        if isinstance(asked, Refused):
            return self._result(ctx, asked, "")
        try:
            answer = await self._node.invoke(asked, _Back(ctx, self))
        except Exception:  # noqa: BLE001 - a node of any kind may raise anything
            _log.exception("operation %s failed inside the node", asked.id)
            answer = Failed(Category.INTERNAL_FAILURE, f"Internal error; the log knows it as operation {asked.id}")
        self._deliveries.expect(ctx, answer.receipt)
        if isinstance(answer, Fault):
            raise MCPError(answer.code, answer.message, answer.data)
        return self._result(ctx, answer, asked.id)

    def _result(self, ctx: Context, answer: Any, operation_id: str) -> JsonObject:
        era = _era(ctx)
        made = translate.result(answer, operation_id=operation_id, era=era)
        return self._stamped(made) if era is Era.MODERN else made

    def _stamped(self, made: JsonObject) -> JsonObject:
        return translate.stamped(made, {"name": self.name, "version": self.version})

    async def _catalogue(self, caller: Caller) -> Catalogue:
        offer = await self._node.offered_to(caller)
        kept = self._catalogues.get(caller)
        if kept is not None and kept.revision == int(offer.revision):
            return kept
        if len(self._catalogues) >= MAX_SUBSCRIPTIONS:
            self._catalogues.clear()
        fresh = self._catalogues[caller] = project(offer)
        for name, reason in fresh.set_aside:
            _log.warning("tool %s is set aside: %s", name[:64], reason)
        return fresh

    # -- small handlers --

    async def _initialized(self, ctx: Context, _params: types.NotificationParams | None) -> None:
        self._sessions[:] = [*self._sessions[-(MAX_SUBSCRIPTIONS - 1) :], ctx.session]

    async def _set_level(self, _ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._level = params.level
        return types.EmptyResult()

    def wants(self, ctx: Context, level: str) -> bool:
        """Whether an initialize-era client asked for logs of `level`; in 2026-07-28 the SDK decides per request."""
        return ctx.protocol_version == MODERN or LEVELS.index(level) >= LEVELS.index(self._level)


class _Back:
    """What the node says while it works, in order, to the request it belongs to."""

    def __init__(self, ctx: Context, server: NodeServer) -> None:
        self._ctx, self._server = ctx, server
        self._order = asyncio.Lock()

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        async with self._order:
            await self._ctx.session.report_progress(progress, total, message)

    async def log(self, level: str, data: JsonValue) -> None:
        if level not in LEVELS or not self._server.wants(self._ctx, level):
            return
        async with self._order:
            known: Any = level
            await self._ctx.session.send_log_message(known, data, related_request_id=self._ctx.request_id)


@contextlib.asynccontextmanager
async def _watching(server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
    """The server's lifespan: list changes are watched for exactly as long as it serves."""
    watcher = asyncio.ensure_future(server.watch()) if isinstance(server, NodeServer) else None
    try:
        yield {}
    finally:
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)


async def _answered_by_middleware(_ctx: Context, _params: Any) -> Any:
    # Registered so that the SDK advertises tools and checks the order of opening; reached only before the handshake.
    raise MCPError(types.INVALID_REQUEST, "Not initialized")


def _opened(ctx: Context) -> bool:
    return ctx.request_id is not None and (ctx.protocol_version == MODERN or ctx.session.client_params is not None)


def _era(ctx: Context) -> Era:
    return Era.MODERN if ctx.protocol_version == MODERN else Era.INITIALIZE


def _validate(ctx: Context, params: Mapping[str, Any] | None) -> None:
    try:
        methods.validate_client_request(ctx.method, ctx.protocol_version, params)
    except ValidationError:
        raise MCPError(types.INVALID_PARAMS, "Invalid request parameters") from None
