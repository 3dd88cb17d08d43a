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
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.inbound import validate_mcp_param_headers
from mcp_types import methods
from pydantic import ValidationError

from bascule.identity import Caller
from bascule.node.node import Node
from bascule.node.terms import (
    Answer,
    Category,
    Cause,
    EffectState,
    Failed,
    Fault,
    Invocation,
    JsonObject,
    JsonValue,
    Refused,
)
from bascule.protocol import translate
from bascule.protocol.back import Context, Levels, RequestBack
from bascule.protocol.catalogue import Catalogue, InvalidCursorError, project
from bascule.protocol.delivery import Deliveries
from bascule.protocol.expectation import unexpected
from bascule.protocol.translate import Era
from bascule.protocol.versions import INITIALIZE_ERA, MODERN, refuse_initialize

KEY_HEADER: Final = "idempotency-key"
"""Field of plain HTTP clients for the key of a write (decision 7)."""

LIST_TTL_MS: Final = 30_000
"""How long a 2026-07-28 client may keep a listing without asking: changes are announced besides."""

MAX_SUBSCRIPTIONS: Final = 64
"""Standing streams of one server; the gates hold each caller to fewer."""

MAX_CALLERS: Final = 64
"""Callers whose catalogue is kept ready; beyond it catalogues are made again, never wrongly."""

MAX_NOTES: Final = 1_000
"""Remarks about definitions that are remembered so that each is logged once."""

_log: Final = logging.getLogger("bascule.protocol")


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
        answers_to: tuple[str, str] | None = None,
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
            answers_to: name and version to which a call's `bascule/expect` is held, before anything is done; not looked
                at without one, as on a bridge, where the expectation is about the far end.
            watched_as: the caller whose offer is watched for list changes; none are announced without one.
        """
        self._node, self._caller_of, self._trace_of = node, caller_of, trace_of
        self._deliveries, self._if_dropped = deliveries, if_dropped
        self._fallback, self._watched_as = legacy_fallback, watched_as
        self._answers_to = answers_to
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus, max_subscriptions=MAX_SUBSCRIPTIONS)
        self._sessions: list[ServerSession] = []
        self._levels = Levels()
        self._catalogues: dict[Caller, Catalogue] = {}
        self._noted: set[tuple[str, str]] = set()
        super().__init__(
            name,
            version=version,
            instructions=instructions or None,
            lifespan=_watching,
            # Never a schema: it is asked before anyone is known to see the tool (architecture, rule 1).
            get_tool_input_schema=lambda _name: None,
            on_list_tools=_answered_by_middleware,
            on_call_tool=_answered_by_middleware,
            on_subscriptions_listen=self._listen if watched_as is not None else None,
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
        """Announce changes of the node's offer to whoever listens, until cancelled.

        Standing `subscriptions/listen` streams hear it on the SDK's bus, initialize-era sessions by notification; both
        only that there was a change: what each caller sees of it is answered when it lists.
        """
        if self._watched_as is None:
            return
        try:
            async for _ in self._node.changes(self._watched_as):
                await self._bus.publish(ToolsListChanged())
                for session in list(self._sessions):
                    await session.send_tool_list_changed()
        except Exception:  # noqa: BLE001 - a node may raise anything; serving goes on without announcements
            _log.exception("changes of the offer are no longer announced")

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
        # What is no text is a malformed message, and the SDK says so.
        if isinstance(requested, str) and requested not in INITIALIZE_ERA and self._fallback == "refuse":
            raise refuse_initialize(requested)

    async def _list(self, ctx: Context) -> JsonObject:
        _validate(ctx, ctx.params)
        catalogue = await self._catalogue(self._caller_of(ctx))
        try:
            tools, following = catalogue.page(_era(ctx), (ctx.params or {}).get("cursor"))
        except InvalidCursorError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        listing: JsonObject = {"tools": list(tools)} | ({"nextCursor": following} if following else {})
        if _era(ctx) is Era.INITIALIZE:
            return listing
        return self._stamped(listing | {"ttlMs": LIST_TTL_MS, "cacheScope": "private"})

    async def _call(self, ctx: Context) -> JsonObject:
        """Answer a `tools/call`. Once the message is sound, every failure is a result, our own included (rule 9)."""
        params = dict(ctx.params or {})
        # Arguments of the wrong type are a failure of the call, said by the node; the rest of the message must be sound.
        sound = isinstance(params.get("arguments"), dict)
        _validate(ctx, params if sound else {name: value for name, value in params.items() if name != "arguments"})
        operation_id, effect = translate.new_id(), EffectState.NONE
        try:
            catalogue = await self._catalogue(self._caller_of(ctx))
            asked = self._asked(ctx, params, catalogue)
            if isinstance(asked, Refused):
                return self._result(ctx, asked, operation_id)
            if (other := unexpected(params, self._answers_to)) is not None:
                return self._result(ctx, other, operation_id)
            _check_headers(ctx, catalogue.mirrored.get(asked.name), asked.arguments)
            operation_id, effect = asked.id, EffectState.PARTIAL
            answer = await self._invoked(ctx, asked)
            if not isinstance(answer, Fault):
                return self._result(ctx, answer, asked.id, structured=asked.name in catalogue.structured)
        except _HeaderMismatchError:
            raise
        except Exception:  # noqa: BLE001 - the last catch: a node may raise anything, no text of it reaches a peer
            _log.exception("operation %s failed inside the protocol server", operation_id)
            words = f"Internal error; the log knows it as operation {operation_id}"
            return self._result(ctx, Failed(Category.INTERNAL_FAILURE, words, effect=effect), operation_id)
        raise MCPError(answer.code, answer.message, answer.data)

    def _asked(self, ctx: Context, params: JsonObject, catalogue: Catalogue) -> Invocation | Refused:
        if _era(ctx) is Era.INITIALIZE:
            # A node that forwards them speaks 2026-07-28, where each request says what its client wants to hear.
            meta = params.get("_meta")
            level = {types.LOG_LEVEL_META_KEY: self._levels.least(ctx)}
            params = {**params, "_meta": {**meta, **level} if isinstance(meta, dict) else level}
        return translate.invocation(
            params,
            name=catalogue.operation_of(params["name"]),
            caller=self._caller_of(ctx),
            trace=self._trace_of(ctx),
            if_dropped=self._if_dropped,
            header_key=ctx.request.headers.get(KEY_HEADER) if ctx.request is not None else None,
        )

    async def _invoked(self, ctx: Context, asked: Invocation) -> Answer:
        back = RequestBack(ctx, self._levels.wanted(ctx))
        answer = await self._node.invoke(asked, back)
        # Before anything is awaited: from here on somebody knows that this answer must be accounted for.
        self._deliveries.expect(ctx, answer.receipt)
        await back.said()
        return answer

    def _result(self, ctx: Context, answer: Answer, operation_id: str, *, structured: bool = False) -> JsonObject:
        era = _era(ctx)
        made = translate.result(answer, operation_id=operation_id, era=era, structured=structured)
        return self._stamped(made) if era is Era.MODERN else made

    def _stamped(self, made: JsonObject) -> JsonObject:
        return translate.stamped(made, {"name": self.name, "version": self.version})

    async def _catalogue(self, caller: Caller) -> Catalogue:
        """Return the catalogue of `caller`, made once per revision; a listing never fails, so here nothing raises."""
        kept = self._catalogues.get(caller)
        try:
            offer = await self._node.offered_to(caller)
            if kept is not None and kept.revision == int(offer.revision):
                return kept
            fresh = project(offer)
        except Exception:  # noqa: BLE001 - a node may raise anything, and a listing never fails
            _log.exception("the offer to %s cannot be shown; the last one is", caller.name)
            return kept or Catalogue()
        if len(self._catalogues) >= MAX_CALLERS:
            self._catalogues.clear()
        self._catalogues[caller] = fresh
        self._note(fresh)
        return fresh

    def _note(self, catalogue: Catalogue) -> None:
        """Log what is odd about definitions, each remark once."""
        for words, notes in (("is set aside", catalogue.set_aside), ("is listed", catalogue.warnings)):
            for note in notes:
                if note not in self._noted and len(self._noted) < MAX_NOTES:
                    self._noted.add(note)
                    _log.warning("tool %.80r %s: %.300s", note[0], words, note[1])

    # -- small handlers --

    async def _initialized(self, ctx: Context, _params: types.NotificationParams | None) -> None:
        self._sessions[:] = [*self._sessions[-(MAX_SUBSCRIPTIONS - 1) :], ctx.session]

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._levels.set(ctx, params.level)
        return types.EmptyResult()


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


class _HeaderMismatchError(MCPError):
    """The HTTP request contradicts itself: the one failure of a sound call that the specification wants as an error."""


def _check_headers(ctx: Context, schema: JsonObject | None, arguments: JsonValue) -> None:
    """Hold `Mcp-Param-*` headers to the arguments they repeat (MCP 2026-07-28, Streamable HTTP, custom headers).

    Not in the SDK's hook, which is asked before anyone is known to see the tool (architecture, rule 1).
    """
    if schema is None or ctx.request is None or not isinstance(arguments, dict):
        return
    rejection = validate_mcp_param_headers(schema, arguments, ctx.request.headers)
    if rejection is not None:
        raise _HeaderMismatchError(rejection.code, rejection.message, rejection.data)


def _opened(ctx: Context) -> bool:
    return ctx.request_id is not None and (ctx.protocol_version == MODERN or ctx.session.client_params is not None)


def _era(ctx: Context) -> Era:
    return Era.MODERN if ctx.protocol_version == MODERN else Era.INITIALIZE


def _validate(ctx: Context, params: Mapping[str, Any] | None) -> None:
    try:
        methods.validate_client_request(ctx.method, ctx.protocol_version, params)
    except ValidationError:
        raise MCPError(types.INVALID_PARAMS, "Invalid request parameters") from None
