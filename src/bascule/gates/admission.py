"""Gate 9: how many requests may be in the middle of being read, and how many streams may stand.

Work slots are the node's; connections are counted before the gates. It never waits: it admits or refuses.
"""

from collections import Counter
from typing import Final

from bascule.gates.gate import REFUSED, App, Receive, Scope, Send, fields, refuse, was_read, when_read
from bascule.identity import Caller

READING: Final = 64
"""Requests being read at once: each may hold 4 MiB, so this bounds memory at 256 MiB."""

STREAMS_PER_CALLER: Final = 4
"""Standing streams of one caller: one per client program, with room for a restart."""

STREAMS: Final = 64
"""Standing streams in all."""

RETRY_AFTER: Final = (b"retry-after", b"1")


class Admission:
    """What is admitted now. One per controller, shared by the gate and whoever shows it."""

    def __init__(self, *, reading: int = READING, per_caller: int = STREAMS_PER_CALLER, streams: int = STREAMS) -> None:
        self._limits = reading, per_caller, streams
        self.reading = 0
        self.streams: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Admission: {self.reading} being read, {self.streams.total()} streams>"

    def may_read(self) -> bool:
        return self.reading < self._limits[0]

    def may_stream(self, caller: str) -> bool:
        return self.streams[caller] < self._limits[1] and self.streams.total() < self._limits[2]


class AdmissionGate:
    """Stands behind the refusals above, so that being busy masks none of them."""

    def __init__(self, app: App, *, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif not self._admission.may_read():
            await refuse(
                send, 503, REFUSED, "The controller is busy reading requests", headers=[RETRY_AFTER], close=True
            )
        elif fields(scope, b"mcp-method") == [b"subscriptions/listen"]:
            await self._stream(scope, receive, send)
        else:
            await self._read(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._admission.reading += 1

        def release() -> None:
            self._admission.reading -= 1

        when_read(scope, release)
        try:
            await self._app(scope, receive, send)
        finally:
            was_read(scope)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope.get("bascule.caller")
        name = caller.name if isinstance(caller, Caller) else ""
        if not self._admission.may_stream(name):
            message = f"Too many standing streams: {STREAMS_PER_CALLER} a caller, {STREAMS} in all"
            await refuse(send, 503, REFUSED, message, headers=[RETRY_AFTER], close=True)
            return
        self._admission.streams[name] += 1
        try:
            await self._read(scope, receive, send)
        finally:
            self._admission.streams[name] -= 1
            if not self._admission.streams[name]:
                del self._admission.streams[name]
