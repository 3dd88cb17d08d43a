"""One HTTP exchange with an MCP server: the bearer put on, the answer bounded and checked, each failure typed.

Which requests are made, and what a failure means for a call, is left to `link` and `remote`.

The SDK's client lets one transport error end every call in flight (python-sdk #3522). Here each failure is noted on the
exchange it belongs to, and the SDK sees an ordinary error response in its place; so one failure stays one.

1. The token is asked for at each request and goes only on it: never into the client's own headers or log.
2. A redirect is an answer like any other refusal; it is never followed.
3. A JSON body is read whole, within its cap, and must answer this very request; else the caller would wait for ever.
4. A stream is passed on as it comes; how it broke is noted.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import httpcore2
import httpx2
import msgspec
from mcp_types import CONNECTION_CLOSED

from bascule import wire
from bascule.credentials import CredentialError
from bascule.protocol.addresses import AddressRefusedError, UnresolvedError

MAX_BODY: Final = 16_777_216
"""Bytes of one JSON answer or SSE event (16 MiB): as long as the longest line a client may send us."""

MAX_REQUEST: Final = 4_194_304
"""Bytes of a request: what a controller takes. Said before sending: it would close the connection while we still write."""

MAX_REFUSAL: Final = 65_536
"""Bytes read of an error answer: enough for a JSON-RPC error; a proxy's page is only named."""

MAX_DEPTH: Final = 2 * wire.MAX_DEPTH
"""Levels of nesting of an answer: a value of the deepest kind a controller gives, and the message around it."""

MAX_WORDS: Final = 300
"""Characters of another server's own words that are passed on."""

_JSON: Final = "application/json"
_SSE: Final = "text/event-stream"


class Kind(StrEnum):
    """What went wrong, as far as the remedy differs."""

    NO_TOKEN = "no token"  # noqa: S105 - a name of a failure
    UNREACHABLE = "unreachable"
    ADDRESS = "address refused"
    TLS = "tls"
    BUSY = "busy"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    MISDIRECTED = "misdirected"
    REDIRECT = "redirect"
    NOT_MCP = "not mcp"
    REFUSED = "refused"
    TOO_LARGE = "too large"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Failure:
    """How an exchange failed. `sent` says whether the server may have begun to act on it."""

    kind: Kind
    cause: str
    """In words, without the token; may quote the server."""
    sent: bool


Notice = Callable[[str, dict[str, Any]], None]
"""Method and params of a notification that came on an exchange's own stream; must not block or raise."""


@dataclass(slots=True)
class Exchange:
    """One request and what is known of it. It rides in a context variable from the caller to the transport and back."""

    notice: Notice | None = None
    failure: Failure | None = None
    answered: bool = False
    """Whether the server's own JSON-RPC error was passed on: the SDK reports losses under codes that servers use too."""
    bearer: str = field(default="", repr=False)
    """The token that went out with it, so that no text that comes back repeats it."""

    def scrubbed(self, text: str) -> str:
        """Return `text` without the token."""
        return _scrubbed(text, self.bearer)

    def fail(self, kind: Kind, cause: str, *, sent: bool) -> None:
        """Note a failure; the first one stays."""
        if self.failure is None:
            self.failure = Failure(kind, cause, sent)


current: Final[ContextVar[Exchange | None]] = ContextVar("bascule.exchange", default=None)


class _Envelope(msgspec.Struct):
    id: int | str | None = None


_envelope: Final = msgspec.json.Decoder(_Envelope)

_REFUSALS: Final = {
    401: Kind.UNAUTHORIZED,
    403: Kind.FORBIDDEN,
    421: Kind.MISDIRECTED,
    429: Kind.BUSY,
    503: Kind.BUSY,
}
"""Status codes that are answers of gates and proxies, never of a method."""


class Transport(httpx2.AsyncBaseTransport):
    """Carries the SDK client's requests over a pool of checked connections. Never raises but for cancellation."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool, token: Callable[[], str]) -> None:
        self._pool, self._token = pool, token

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send `request`; every failure becomes a note on the exchange and an error response."""
        exchange = current.get() or Exchange()
        try:
            bearer = exchange.bearer = self._token()  # 1
        except CredentialError as error:
            exchange.fail(Kind.NO_TOKEN, str(error), sent=False)
            return _stand_in()
        size = request.headers.get("content-length", "0")
        if size.isdigit() and int(size) > MAX_REQUEST:
            words = f"the request has {size} bytes, and a controller takes {MAX_REQUEST}"
            exchange.fail(Kind.TOO_LARGE, words, sent=False)
            return _stand_in()
        try:
            response = await self._pool.handle_async_request(_outgoing(request, bearer))
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError) as error:
            _note(exchange, error, bearer)
            return _stand_in()
        return await self._answer(exchange, request, response, bearer)

    async def _answer(
        self, exchange: Exchange, request: httpx2.Request, response: httpcore2.Response, bearer: str
    ) -> httpx2.Response:
        headers = httpx2.Headers(response.headers)
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status == 200 and media == _SSE and not _encoded(headers):
            return httpx2.Response(200, headers={"content-type": _SSE}, stream=_Stream(response, exchange, bearer))  # 4
        try:
            return await self._whole(exchange, request, response, headers, media, bearer)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError) as error:
            _note(exchange, error, bearer, sent=True)
            return _stand_in()
        finally:
            await response.aclose()

    async def _whole(
        self,
        exchange: Exchange,
        request: httpx2.Request,
        response: httpcore2.Response,
        headers: httpx2.Headers,
        media: str,
        bearer: str,
    ) -> httpx2.Response:
        if 300 <= response.status < 400:  # 2
            where = _scrubbed(_place(headers.get("location", "")), bearer)
            exchange.fail(Kind.REDIRECT, f"it answered with a redirect ({response.status}) to {where}", sent=False)
            return _stand_in()
        body = await _bounded(response, MAX_BODY if response.status == 200 else MAX_REFUSAL)
        message = _message(body) if media == _JSON and body is not None and not _encoded(headers) else None
        if response.status == 200:
            return _checked(exchange, request, media, body, message)
        return _refusal(exchange, response.status, message, bearer)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _Stream(httpx2.AsyncByteStream):
    """The bytes of an event stream; how they broke off is noted on the exchange."""

    def __init__(self, response: httpcore2.Response, exchange: Exchange, bearer: str) -> None:
        self._response, self._exchange, self._bearer = response, exchange, bearer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_stream():
                yield chunk
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError) as error:
            _note(self._exchange, error, self._bearer, sent=True)

    async def aclose(self) -> None:
        await self._response.aclose()


def _outgoing(request: httpx2.Request, bearer: str) -> httpcore2.Request:
    kept = [(name, value) for name, value in request.headers.raw if name.lower() not in (b"accept-encoding", b"cookie")]
    url = request.url
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        # An encoded answer could unfold to any size after its bytes were counted.
        headers=[*kept, (b"Accept-Encoding", b"identity"), (b"Authorization", b"Bearer " + bearer.encode("ascii"))],
        content=request.stream,
        extensions=request.extensions,
    )


async def _bounded(response: httpcore2.Response, limit: int) -> bytes | None:
    """Return the body, or None when it is longer than `limit`."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_stream():
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
    return b"".join(parts)


def _checked(
    exchange: Exchange, request: httpx2.Request, media: str, body: bytes | None, message: dict[str, Any] | None
) -> httpx2.Response:
    if body is None:
        exchange.fail(Kind.TOO_LARGE, f"its answer is larger than {MAX_BODY} bytes", sent=True)
        return _stand_in()
    if message is None or not (_is_result(message) or _is_error(message)):
        exchange.fail(
            Kind.NOT_MCP, f"it answered with {_printable(media) or 'no media type'}, not as MCP does", sent=True
        )
        return _stand_in()
    answered = message.get("id")
    exchange.answered = _is_error(message)
    if answered is None and exchange.answered:
        return httpx2.Response(400, headers={"content-type": _JSON}, content=body)
    if type(answered) is bool or answered != _envelope.decode(request.content).id:  # 3
        exchange.fail(Kind.NOT_MCP, "it answered another request than the one it was sent", sent=True)
        return _stand_in()
    return httpx2.Response(200, headers={"content-type": _JSON}, content=body)


def _is_result(message: dict[str, Any]) -> bool:
    return isinstance(message.get("result"), dict) and "error" not in message


def _is_error(message: dict[str, Any]) -> bool:
    error = message.get("error")
    if not isinstance(error, dict) or "result" in message:
        return False
    return type(error.get("code")) is int and isinstance(error.get("message"), str)


def _refusal(exchange: Exchange, status: int, message: dict[str, Any] | None, bearer: str) -> httpx2.Response:
    """Pass a JSON-RPC error of a method on; note what gates and proxies say."""
    stated = message if message is not None and _is_error(message) else None
    said = _scrubbed(_printable(stated["error"]["message"]), bearer) if stated else ""
    # A gate refuses before it knows the request's id, and in its own code; then no method was ever reached.
    gate = stated is not None and stated.get("id") is None and stated["error"]["code"] == CONNECTION_CLOSED
    if status not in _REFUSALS and stated is not None and not (gate and status < 500):
        exchange.answered = True
        return httpx2.Response(max(status, 400), headers={"content-type": _JSON}, content=wire.write(stated))
    kind = _REFUSALS.get(status, Kind.REFUSED if said else Kind.NOT_MCP)
    exchange.fail(
        kind, f"it answered HTTP {status}" + (f": {said}" if said else ""), sent=status >= 500 and status != 503
    )
    return _stand_in()


def _message(body: bytes) -> dict[str, Any] | None:
    try:
        read = wire.read(body, max_depth=MAX_DEPTH)
    except wire.WireError:
        return None
    return read if isinstance(read, dict) and read.get("jsonrpc") == "2.0" else None


def _note(exchange: Exchange, error: Exception, bearer: str, *, sent: bool = False) -> None:
    """Note a broken exchange. Only failures of connecting are known to have sent nothing."""
    match error:
        case AddressRefusedError():
            exchange.fail(Kind.ADDRESS, str(error), sent=sent)
        case UnresolvedError():
            exchange.fail(Kind.UNREACHABLE, str(error), sent=sent)
        case httpcore2.ConnectError() if "SSL" in str(error) or "certificate" in str(error):
            exchange.fail(Kind.TLS, _scrubbed(str(error), bearer), sent=sent)
        case httpcore2.ConnectError():
            exchange.fail(Kind.UNREACHABLE, "the connection was refused", sent=sent)
        case httpcore2.ConnectTimeout():
            exchange.fail(Kind.UNREACHABLE, "the connection was not taken in time", sent=sent)
        case httpcore2.PoolTimeout():
            exchange.fail(Kind.BUSY, "too many calls are on their way already", sent=sent)
        case httpcore2.ReadTimeout():
            exchange.fail(Kind.LOST, "nothing was heard from it for too long", sent=True)
        case _:
            exchange.fail(Kind.LOST, "the connection broke before the whole answer was here", sent=True)


def _scrubbed(text: str, bearer: str) -> str:
    return text.replace(bearer, "<token>") if bearer else text


def _printable(text: str) -> str:
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if len(shown) <= MAX_WORDS else shown[:MAX_WORDS] + "..."


def _place(location: str) -> str:
    """Where a redirect leads, without the parts that may carry secrets."""
    try:
        url = httpx2.URL(location)
    except (httpx2.InvalidURL, TypeError):
        return "an unreadable address"
    return _printable(str(url.copy_with(userinfo=b"", query=None, fragment=None))) or "nowhere"


def _encoded(headers: httpx2.Headers) -> bool:
    return headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")


def _stand_in() -> httpx2.Response:
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the exchange failed"}}'
    return httpx2.Response(400, headers={"content-type": _JSON}, content=body)


@asynccontextmanager
async def exchanging(exchange: Exchange) -> AsyncGenerator[None]:
    """Let `exchange` ride on everything done inside."""
    mark = current.set(exchange)
    try:
        yield
    finally:
        current.reset(mark)
