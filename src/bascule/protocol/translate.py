"""Between the node's words and MCP's: operations to tools, params to invocations, answers to results. Pure.

Sending, receiving and caching are left to `server`; which revision is spoken is told as an era.
"""

import itertools
import math
import re
import secrets
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from bascule import wire
from bascule.identity import Caller
from bascule.node.terms import (
    Answer,
    Category,
    Cause,
    Completed,
    Confirmation,
    Effect,
    EffectState,
    Failed,
    Invocation,
    JsonObject,
    JsonValue,
    Kind,
    NeedsAnswer,
    Operation,
    Passed,
    Refused,
    Slots,
    confirmation_of,
)

SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
OPERATION_ID: Final = "bascule/operationId"
CATEGORY: Final = "bascule/category"
OUTCOME: Final = "bascule/outcome"
DEADLINE: Final = "bascule/deadlineMs"
KEY: Final = "bascule/idempotencyKey"
REAL_NAME: Final = "bascule/operation"
QUESTION: Final = "bascule/question"

MAX_OWN_RESULT: Final = 4_718_592
"""Bytes of text and structured content together in what we make ourselves (4.5 MiB): with JSON's escapes and the
envelope it stays under the line that kills a client."""

EXCERPT: Final = 65_536
"""Characters of the excerpt that stands for a text which the structured content holds whole."""

MAX_KEY: Final = 128
"""Characters of an idempotency key, as peers have it."""

MAX_PATIENCE: Final = 86_400_000
"""Milliseconds of a deadline that count (a day): any operation's own timeout is smaller, and no number overflows."""

_PROCESS: Final = secrets.token_hex(10)
_COUNT: Final = itertools.count(1)

_KEY_GRAMMAR: Final = re.compile(r"[\x21-\x7e]{1,128}")
_FOLDED: Final = re.compile(r"[^A-Za-z0-9_-]")


class Era(StrEnum):
    """Which shape of results a peer reads."""

    INITIALIZE = "initialize"
    MODERN = "modern"


def fold(name: str) -> str:
    """Return `name` as tools are named: one dot takes a whole client down, so it becomes `_`, as do all its kind."""
    return _FOLDED.sub("_", name)


# -- operations to tools --


def tool(operation: Operation) -> JsonValue:
    """Return the tool definition of `operation`: an object, or whatever another server gave for its own, unread.

    Annotations follow the effect. `openWorldHint` is false only where the work stays inside the controller: a program
    may reach whatever it likes, and a hint must not promise more than is known.
    """
    if operation.definition is not None:
        return operation.definition.payload
    title = operation.title or operation.name
    shown: JsonObject = {
        "name": fold(operation.name),
        "title": title,
        "description": operation.description,
        "inputSchema": operation.arguments,
    }
    if (output := _output_schema(operation)) is not None:
        shown["outputSchema"] = output
    return shown | {
        "annotations": {
            "title": title,
            "readOnlyHint": operation.effect is Effect.READ,
            "destructiveHint": operation.effect is Effect.DESTRUCTIVE,
            "openWorldHint": operation.slots is not Slots.INTERNAL,
        },
        "_meta": {
            REAL_NAME: operation.name,
            "bascule/effect": operation.effect.value,
            "bascule/confirmation": confirmation_of(operation).value,
            "bascule/timeoutMs": round(operation.timeout * 1000),
        },
    }


_PREVIEW: Final[JsonObject] = {
    "type": "object",
    "properties": {"applied": {"const": False}, "plan": {}},
    "required": ["applied", "plan"],
}

_REFERRING: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "$id", "id"})


def _output_schema(operation: Operation) -> JsonObject | None:
    """Return the schema that every success of `operation` fits: clients refuse one that does not.

    A preview is a success of another shape. A schema with references is left out then: they count from the root, where
    it would no longer stand, and one dangling reference keeps some clients from starting the whole server.
    """
    result = operation.result
    if result is None or confirmation_of(operation) is Confirmation.NONE:
        return result
    if _refers(result):
        return None
    dialect = {"$schema": result["$schema"]} if "$schema" in result else {}
    kind = {"type": "object"} if result.get("type") == "object" else {}
    alone = {name: value for name, value in result.items() if name != "$schema"}
    return dialect | kind | {"anyOf": [alone, _PREVIEW]}


def _refers(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return not _REFERRING.isdisjoint(value) or any(_refers(inner) for inner in value.values())
    return isinstance(value, list) and any(_refers(inner) for inner in value)


def without_output_schema(definition: JsonObject) -> JsonObject:
    """Return a tool without its output schema; it works all the same."""
    return {name: value for name, value in definition.items() if name != "outputSchema"}


def for_era(definition: JsonObject, era: Era) -> JsonObject:
    """Return a tool as `era` can carry it: initialize-era revisions know output schemas of objects alone.

    The values those schemas describe are not sent there as `structuredContent` either, see `result`.
    """
    output = definition.get("outputSchema")
    if era is Era.INITIALIZE and isinstance(output, Mapping) and output.get("type") != "object":
        return without_output_schema(definition)
    return definition


# -- params to invocations --


def new_id() -> str:
    """Return a fresh operation id."""
    return f"{_PROCESS}{next(_COUNT):012x}"


def invocation(
    params: Mapping[str, Any],
    *,
    name: str,
    caller: Caller,
    if_dropped: Cause,
    trace: str = "",
    header_key: str | None = None,
) -> Invocation | Refused:
    """Return the invocation that `params` of a `tools/call` ask for.

    A key or deadline that cannot be read is refused: dropping it in silence would drop a promise.

    Args:
        params: as they came, and kept so for a node that forwards them.
        name: the operation's, resolved; as sent where nobody knows it.
        caller: who asks.
        if_dropped: what it means when the request is cancelled.
        trace: of the request, for record and log.
        header_key: the `Idempotency-Key` field of the HTTP request, for clients that cannot set `_meta` (decision 7).
    """
    meta = params.get("_meta")
    meta = meta if isinstance(meta, Mapping) else {}
    key, remaining = meta.get(KEY), meta.get(DEADLINE)
    if key is not None and header_key is not None and key != header_key:
        return Refused(Category.INVALID_REQUEST, f"{KEY} and the header Idempotency-Key disagree; send one of them")
    key = header_key if key is None else key
    if key is not None and not (isinstance(key, str) and _KEY_GRAMMAR.fullmatch(key)):
        return Refused(Category.INVALID_REQUEST, f"{KEY} must be 1 to {MAX_KEY} visible ASCII characters")
    if remaining is not None and not _positive(remaining):
        return Refused(Category.INVALID_REQUEST, f"{DEADLINE} must be a number of milliseconds above 0")
    arguments = params.get("arguments")
    answers = params.get("inputResponses")
    return Invocation(
        id=new_id(),
        caller=caller,
        kind=Kind.CALL,
        name=name,
        arguments={} if arguments is None else arguments,
        trace=trace,
        remaining=None if remaining is None else min(remaining, MAX_PATIENCE) / 1000,
        key=key,
        answers=answers if isinstance(answers, dict) else {},
        if_dropped=if_dropped,
        params=Passed(dict(params)),
    )


def _positive(value: JsonValue) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value > 0 and (isinstance(value, int) or math.isfinite(value))


# -- answers to results --


def result(answer: Answer, *, operation_id: str, era: Era, structured: bool = False) -> JsonObject:
    """Return the finished `tools/call` result of `answer`, without the serving side's own stamp.

    Text and `structuredContent` are each complete: clients show one of the two and drop the other. Failures are text
    alone, or their words would be lost where structured content is preferred. `Passed` is another server's result and
    keeps everything the era can carry.

    Args:
        answer: the node's; a `Fault` is no result and never comes here.
        operation_id: of the invocation, said in every result that we make.
        era: of the client. To the initialize era only objects are sent as `structuredContent`.
        structured: the tool has an output schema, so that even a plain text must be given as a structured value.

    Raises:
        TypeError: `answer` is a `Fault`, or a `Passed` that holds no object.
        WireError: a value that JSON cannot carry.
    """
    match answer:
        case Passed(payload):
            return _passed(payload, era)
        case Completed(value, True):
            return _completed(value, operation_id, era, structured=structured)
        case Completed(value, False):
            return _preview(value, operation_id)
        case Refused(category, message):
            return _error(message, category, operation_id)
        case NeedsAnswer(message, question_id):
            made = _error(message, Category.APPROVAL_PENDING, operation_id)
            return made if not question_id else made | {"_meta": made["_meta"] | {QUESTION: question_id}}
        case Failed():
            return _failed(answer, operation_id)
    raise TypeError(f"{type(answer).__name__} is no result of a call")


def _completed(value: JsonValue, operation_id: str, era: Era, *, structured: bool) -> JsonObject:
    plain = value is None or isinstance(value, str)
    text = _text(value)
    if not isinstance(value, dict) and (era is Era.INITIALIZE or (plain and not structured)):
        return _success(_content(text), operation_id)
    size = len(wire.write(value)) if plain else _size(text)
    return _success(_content(text, size), operation_id) | {"structuredContent": value}


def _preview(plan: JsonValue, operation_id: str) -> JsonObject:
    shown = {"applied": False, "plan": plan}
    text = f"Preview: not applied. Nothing was done; this is what would be done:\n{_text(plan)}"
    made = _success(_content(text, len(wire.write(shown))), operation_id)
    made["_meta"][OUTCOME] = {"state": "preview", "effect": EffectState.NONE.value}
    return made | {"structuredContent": shown}


def _success(content: list[JsonObject], operation_id: str) -> JsonObject:
    return {"content": content, "isError": False, "_meta": {OPERATION_ID: operation_id}}


def _failed(answer: Failed, operation_id: str) -> JsonObject:
    words = answer.message
    if answer.effect is EffectState.PARTIAL and EffectState.PARTIAL.value not in words:
        words = f"{words} (its effect may be partial)"
    made = _error(words if answer.value is None else f"{words}\n{_text(answer.value)}", answer.category, operation_id)
    made["_meta"][OUTCOME] = {
        "state": "failed",
        "effect": answer.effect.value,
        "category": answer.category.value,
        "cause": answer.cause.value,
    }
    return made


def _error(message: str, category: Category, operation_id: str) -> JsonObject:
    return {
        "content": _content(message),
        "isError": True,
        "_meta": {OPERATION_ID: operation_id, CATEGORY: category.value},
    }


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return "Done." if value is None else wire.write(value).decode()


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _content(text: str, structured: int | None = None) -> list[JsonObject]:
    """Return `text` as the content of a result beside `structured` bytes of structured content, cut where both together
    are too much: with structured content to an excerpt, because that holds the whole, else to what fits."""
    size = _size(text)
    if size + (structured or 0) > MAX_OWN_RESULT:
        if structured is None:
            kept = text.encode("utf-8", "replace")[:MAX_OWN_RESULT].decode("utf-8", "ignore")
            text = f"{kept}\n[excerpt: the first {_size(kept)} of {size} bytes]"
        else:
            kept = text[:EXCERPT]
            text = f"{kept}\n[excerpt: the first {_size(kept)} of {size} bytes; structuredContent holds the whole]"
    return [{"type": "text", "text": text}]


_STATELESS_ONLY: Final = frozenset({"resultType", "ttlMs", "cacheScope"})


def _passed(payload: JsonValue, era: Era) -> JsonObject:
    if not isinstance(payload, dict):
        raise TypeError("the other server's result is no object")
    if era is Era.MODERN:
        return dict(payload)
    if payload.get("resultType") == "input_required":
        words = "The controller asks a question first, and this client cannot show it. A person must answer it there."
        return _error(words, Category.APPROVAL_PENDING, _operation_id(payload))
    kept = {name: value for name, value in payload.items() if name not in _STATELESS_ONLY}
    if "structuredContent" in kept and not isinstance(kept["structuredContent"], dict):
        del kept["structuredContent"]
    meta = kept.get("_meta")
    if isinstance(meta, Mapping) and SERVER_INFO in meta:
        kept["_meta"] = {name: value for name, value in meta.items() if name != SERVER_INFO}
    return kept


def _operation_id(payload: JsonObject) -> str:
    meta = payload.get("_meta")
    known = meta.get(OPERATION_ID) if isinstance(meta, dict) else None
    return known if isinstance(known, str) else ""


def stamped(made: JsonObject, server_info: JsonObject) -> JsonObject:
    """Return a 2026-07-28 result with what the revision requires of the one who serves it."""
    meta = made.get("_meta")
    own = {SERVER_INFO: server_info}
    return {"resultType": "complete", **made, "_meta": {**meta, **own} if isinstance(meta, Mapping) else own}
