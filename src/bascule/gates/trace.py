"""Gate 2: gives each request a trace id, echoes it, and writes one log line when it is over.

Whether the request is answered, refused or dropped is left to everything behind; the line tells which.
"""

import itertools
import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

from bascule.gates.gate import App, Message, Receive, Scope, Send, fields
from bascule.identity import Caller

TRACE_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,96}")
"""What is kept of a peer's `X-Request-Id`: nothing that could forge a log line or a header."""

_KEY: Final = "bascule.trace"

_PROCESS: Final = secrets.token_hex(10).encode()
_COUNT: Final = itertools.count(1)
"""With the random part of this process, ids that no other process gives; asking the kernel for each would cost more."""

_log: Final = logging.getLogger("bascule.gates")


def trace_of(scope: Mapping[str, Any]) -> str:
    """Return the trace id riding on `scope`, or the empty string."""
    return str(scope.get(_KEY, ""))


class TraceGate:
    """Passes everything."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace = _trace(scope)
        scope[_KEY] = trace.decode("ascii")
        started, status = time.perf_counter(), 0

        async def traced(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", trace)]}
            await send(message)

        try:
            await self._app(scope, receive, traced)
        finally:
            if _log.isEnabledFor(logging.INFO):
                _write_line(scope, status, time.perf_counter() - started)


def _trace(scope: Scope) -> bytes:
    given = fields(scope, b"x-request-id")
    return given[0] if len(given) == 1 and TRACE_ID.fullmatch(given[0]) else b"%b%012x" % (_PROCESS, next(_COUNT))


def _write_line(scope: Scope, status: int, seconds: float) -> None:
    caller = scope.get("bascule.caller")
    _log.info(
        "%s %s %s %.1f ms caller=%s trace=%s forwarded=%s",
        scope["method"],
        status or "unanswered",
        scope["path"][:100].encode("unicode_escape").decode(),
        seconds * 1000,
        caller.name if isinstance(caller, Caller) else "-",
        scope[_KEY],
        "yes" if fields(scope, b"x-forwarded-for") or fields(scope, b"forwarded") else "no",
    )
