"""Before the gates: how many connections are open, how large and how slow a request's head may be.

A subclass of uvicorn's httptools protocol. Bodies, and everything a head says, are left to the gates behind.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bascule import wire
from bascule.gates.gate import INVALID_REQUEST

MAX_CONNECTIONS: Final = 512
"""Open at once: far over what agents of one machine need, under the usual limit of 1,024 descriptors."""

MAX_HEAD: Final = 32_768
"""Bytes of a request's head: four times what common proxies let through."""

MAX_FIELDS: Final = 100
"""Fields of a head, as common servers limit them."""

HEAD_TIME: Final = 10.0
"""Seconds from a request's first byte, or from the connection, to the end of its head."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one listener."""

    connections: int = MAX_CONNECTIONS
    head: int = MAX_HEAD
    fields: int = MAX_FIELDS
    head_time: float = HEAD_TIME


@dataclass(slots=True)
class ConnectionCounts:
    """What was turned away before any gate saw it."""

    over_limit: int = 0
    malformed: int = 0
    slow: int = 0


LINGER_TIME: Final = 2.0
"""Seconds in which what a refused peer still sends is read and thrown away: closing at once would reset the
connection, and the peer would lose the refusal it is being told."""

LINGER_BYTES: Final = 16 * 1024 * 1024
"""Bytes thrown away at most for that."""


class HeadTooLargeError(Exception):
    """Raised inside the parser's callbacks to end a head that grows past its limit."""


def limited_protocol(limits: ConnectionLimits, counts: ConnectionCounts) -> type[asyncio.Protocol]:
    """Return the protocol class for `uvicorn.Config(http=...)`, bound to these limits and counters."""

    class LimitedProtocol(_Limited):
        pass

    LimitedProtocol.limits, LimitedProtocol.counts = limits, counts
    return cast("type[asyncio.Protocol]", LimitedProtocol)


class _Limited(HttpToolsProtocol):
    limits: ConnectionLimits
    counts: ConnectionCounts

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head, self._begun, self._refused, self._messages = True, False, False, 0
        self._parsed = self._raw = self._field_count = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn itself
        transport = cast("asyncio.Transport", _Lingering(transport, self))
        if len(self.connections) >= self.limits.connections:
            self.counts.over_limit += 1
            self.transport, self._refused = transport, True
            transport.abort()
            return
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def mid_request(self) -> bool:
        """Whether the peer is still sending what is being answered."""
        return self._begun or getattr(self.cycle, "more_body", False)

    def data_received(self, data: bytes) -> None:
        if self._refused or cast("_Lingering", self.transport).swallows(len(data)):
            return
        before = (self._in_head, self._messages)
        super().data_received(data)
        if self._begun and self._head_timer is None and not self._refused:
            self._watch()  # no timer for a head that came in one piece: most do
        # Fields are counted when they are complete, so one endless field would not be: bytes are counted as well,
        # where a whole piece belonged to one head.
        if before == (True, self._messages) and self._in_head and not self._refused:
            self._raw += len(data)
            if self._raw > self.limits.head:
                self._refuse(431, "The request's head is too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._begun = True
        self._parsed = self._raw = self._field_count = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value) + 4)
        self._field_count += 1
        if self._field_count > self.limits.fields:
            raise HeadTooLargeError

    def on_headers_complete(self) -> None:
        self._in_head = self._begun = False
        self._unwatch()
        super().on_headers_complete()
        if not self.url.startswith(b"/"):
            # The absolute form is another path; uvicorn would show the gates only what follows the authority.
            self.scope["raw_path"] = self.url

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._raw = True, 0
        self._messages += 1

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or not within its limits, as JSON-RPC and close (uvicorn's own answer is text)."""
        if self._parsed > self.limits.head or self._field_count > self.limits.fields:
            self._refuse(431, "The request's head is too large")
        else:
            self.counts.malformed += 1
            self._refuse(400, "Malformed HTTP request")

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > self.limits.head:
            raise HeadTooLargeError

    def _watch(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.head_time, self._too_slow)

    def _unwatch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        self.counts.slow += 1
        self._refuse(408, f"The request's head did not arrive within {self.limits.head_time:g} s")

    def _refuse(self, status: int, message: str) -> None:
        self._refused = True
        self._unwatch()
        answering = getattr(self.cycle, "response_complete", True) is False
        if self.transport.is_closing() or answering:
            # An answer is being written on this connection: a second one would be read as part of it.
            self.transport.close()
            return
        error = {"code": INVALID_REQUEST, "message": message}
        body = wire.write({"jsonrpc": "2.0", "id": None, "error": error})
        head = (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        )
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()


class _Lingering:
    """A connection's transport whose `close` is patient while the peer is still sending; all else is the transport's."""

    def __init__(self, transport: asyncio.Transport, protocol: _Limited) -> None:
        self._transport, self._protocol = transport, protocol
        self._swallowed = -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        if self._swallowed >= 0 or self._transport.is_closing():
            return
        if not self._protocol.mid_request() or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._swallowed = 0
        self._transport.write_eof()
        self._transport.resume_reading()
        self._protocol.loop.call_later(LINGER_TIME, self._transport.abort)

    def is_closing(self) -> bool:
        return self._swallowed >= 0 or self._transport.is_closing()

    def swallows(self, size: int) -> bool:
        """Whether data is only thrown away; too much of it ends the connection."""
        if self._swallowed < 0:
            return False
        self._swallowed += size
        if self._swallowed > LINGER_BYTES:
            self._transport.abort()
        return True


_PHRASES: Final = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}
