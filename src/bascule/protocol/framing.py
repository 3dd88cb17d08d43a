"""Bytes to lines, and lines to what they are: a request, a notification, a response, a batch, or malformed. Pure.

Reading and writing descriptors is left to `pipes`; what becomes of a message to `stdio`.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from mcp_types import INVALID_REQUEST, PARSE_ERROR

from bascule import wire
from bascule.node.terms import JsonObject

MAX_LINE: Final = 16 * 1024 * 1024
"""Bytes of one line from a client: far over the 4 MiB that a controller takes, so that the refusal can say why."""

MAX_BATCH: Final = 100
"""Messages of one batch: as many as any client of 2025-03-26 was seen to send, and more."""

MAX_ID: Final = 4_300
"""Characters or digits of an id, as many digits as a number may have: it is repeated in every answer's line."""

Id: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line over the limit; it is skipped to its LF."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """What must be answered with a JSON-RPC error (JSON-RPC 2.0, section 5.1)."""

    code: int
    message: str
    id: Id | None = None


@dataclass(frozen=True, slots=True)
class Request:
    id: Id
    method: str
    params: JsonObject | None


@dataclass(frozen=True, slots=True)
class Notification:
    method: str
    params: JsonObject | None


@dataclass(frozen=True, slots=True)
class Reply:
    """A response to a request of ours."""

    id: Id
    result: JsonObject | None
    error: JsonObject | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Several messages in one line; only 2025-03-26 knows them."""

    values: tuple[Any, ...]


Read: TypeAlias = Request | Notification | Reply | Batch | Malformed


class Lines:
    """Cuts bytes at LF and nowhere else: U+2028 and CR are text. A CR before the LF is dropped."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """Return the lines that `data` completes, in order; blank ones are left out."""
        complete: list[bytes | TooLong] = []
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._add(piece, complete)
            self._end(complete)
        self._add(rest, complete)
        return complete

    def finish(self) -> list[bytes | TooLong]:
        """Return a last line without LF, as one-shot clients send it."""
        complete: list[bytes | TooLong] = []
        self._end(complete)
        return complete

    def _add(self, piece: bytes, complete: list[bytes | TooLong]) -> None:
        if self._skipping or not piece:
            return
        self._size += len(piece)
        if self._size > self._limit:
            # Told at once, not at its end: a client that never ends the line would otherwise never hear of it.
            self._skipping = True
            self._parts.clear()
            complete.append(TooLong())
        else:
            self._parts.append(piece)

    def _end(self, complete: list[bytes | TooLong]) -> None:
        line = b"".join(self._parts).removesuffix(b"\r")
        if not self._skipping and line.strip():
            complete.append(line)
        self._parts, self._size, self._skipping = [], 0, False


def read(line: bytes) -> Read:
    """Return what `line` is."""
    try:
        value = wire.read(line)
    except wire.WireError as error:
        hint = (
            "; MCP on stdio has no headers, one JSON message a line" if line[:15].lower() == b"content-length:" else ""
        )
        return Malformed(PARSE_ERROR, f"Parse error: {error}{hint}")
    return Batch(tuple(value)) if isinstance(value, list) else classify(value)


def classify(value: Any) -> Request | Notification | Reply | Malformed:
    """Return what one JSON value is as a JSON-RPC message."""
    if not isinstance(value, dict):
        return Malformed(INVALID_REQUEST, "Invalid request: a message is a JSON object")
    has_id = "id" in value
    known = _known_id(value.get("id"))
    if has_id and known is None:
        return Malformed(
            INVALID_REQUEST, f"Invalid request: an id is a string of at most {MAX_ID} characters, or a whole number"
        )
    if value.get("jsonrpc") != "2.0":
        return Malformed(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0"', known)
    if "method" not in value:
        return _reply(value, known)
    method, params = value["method"], value.get("params")
    if not isinstance(method, str) or not method:
        return Malformed(INVALID_REQUEST, "Invalid request: method must be a non-empty string", known)
    if "params" in value and not isinstance(params, dict):
        return Malformed(INVALID_REQUEST, "Invalid request: params must be an object", known)
    return Notification(method, params) if known is None else Request(known, method, params)


def _reply(value: JsonObject, known: Id | None) -> Reply | Malformed:
    result, error = value.get("result"), value.get("error")
    if known is not None and isinstance(result, dict) and error is None:
        return Reply(known, result, None)
    if known is not None and _is_error(error) and "result" not in value:
        return Reply(known, None, error)
    return Malformed(INVALID_REQUEST, "Invalid request: neither a request nor a response", known)


def _is_error(error: Any) -> bool:
    return isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)


def _known_id(value: Any) -> Id | None:
    # true is an int to Python, and 1.5 or null would come back as a message that nobody waits for.
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return None if isinstance(value, str) and len(value) > MAX_ID else value
