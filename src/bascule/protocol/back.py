"""What goes back to a client while its request runs: progress and logs, in order, as far as it wants to hear them.

What is said is the node's; on which stream it travels is the SDK's.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, get_args

import mcp_types as types
from mcp.server.context import ServerRequestContext

from bascule.node.terms import JsonValue
from bascule.protocol.versions import MODERN

MAX_CONNECTIONS: Final = 64
"""Initialize-era connections whose log level is remembered: as many as are served at once; the oldest goes first."""

LEVELS: Final[tuple[str, ...]] = get_args(types.LoggingLevel)
"""From least to most severe (RFC 5424), as the SDK lists them."""

DEFAULT_LEVEL: Final = "info"
"""What an initialize-era client hears before it says `logging/setLevel`."""

Context = ServerRequestContext[Any, Any]
"""What the SDK hands over with each request."""


class Levels:
    """Which log levels a request's client wants to hear.

    An initialize-era client says it once per connection, a 2026-07-28 client in each request: absent means nothing.
    """

    def __init__(self) -> None:
        # By the identity of what the client said at `initialize`, which lives as long as its connection; kept with it,
        # so that an identity is not used twice.
        self._said: OrderedDict[int, tuple[object, str]] = OrderedDict()

    def set(self, ctx: Context, level: str) -> None:
        """Remember what the initialize-era connection of `ctx` asked for."""
        opening = ctx.session.client_params
        self._said[id(opening)] = (opening, level)
        if len(self._said) > MAX_CONNECTIONS:
            self._said.popitem(last=False)

    def least(self, ctx: Context) -> Any:
        """Return the least severe level to be sent, as the client said it."""
        if ctx.protocol_version == MODERN:
            meta = (ctx.params or {}).get("_meta")
            return meta.get(types.LOG_LEVEL_META_KEY) if isinstance(meta, Mapping) else None
        return self._said.get(id(ctx.session.client_params), (None, DEFAULT_LEVEL))[1]

    def wanted(self, ctx: Context) -> frozenset[str]:
        """Return the levels to be sent for the request of `ctx`."""
        least = self.least(ctx)
        return frozenset(LEVELS[LEVELS.index(least) :]) if least in LEVELS else frozenset()


class RequestBack:
    """What the node says while it works: in order, to the request it belongs to. Once that is answered the SDK sends
    nothing more for it."""

    def __init__(self, ctx: Context, levels: frozenset[str]) -> None:
        self._ctx, self._levels = ctx, levels
        self._order = asyncio.Lock()

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress, where the request carries a token for it."""
        async with self._order:
            await self._ctx.session.report_progress(progress, total, message)

    async def log(self, level: str, data: JsonValue) -> None:
        """Send a log message, where the client wants to hear that level; an unknown level is dropped."""
        if level not in self._levels:
            return
        known: Any = level
        params = types.LoggingMessageNotificationParams(level=known, data=data)
        async with self._order:
            await self._ctx.session.send_notification(
                types.LoggingMessageNotification(params=params), related_request_id=self._ctx.request_id
            )

    async def said(self) -> None:
        """Return when everything said so far is out, so that the answer comes after it."""
        async with self._order:
            return
