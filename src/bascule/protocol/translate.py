"""Between the node's words and MCP's: operations to tools, params to invocations, answers to results. Pure.

Sending, receiving and caching are left to `server`; which revision is spoken is told as an era.
"""

import re
import uuid
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
    confirmation_of,
)

SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
OPERATION_ID: Final = "bascule/operationId"
CATEGORY: Final = "bascule/category"
OUTCOME: Final = "bascule/outcome"
DEADLINE: Final = "bascule/deadlineMs"
KEY: Final = "bascule/idempotencyKey"

MAX_OWN_RESULT: Final = 4_718_592
"""Bytes of text and structured content together in what we make ourselves (4.5 MiB): with JSON's escapes and the
envelope it stays under the line that kills a client."""

EXCERPT: Final = 65_536
"""Characters of the excerpt that stands for a text which the structured content holds whole."""

MAX_KEY: Final = 128
"""Characters of an idempotency key, as peers have it."""

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


def tool(operation: Operation) -> JsonObject:
    """Return the tool definition of `operation`: another server's own where there is one, unread."""
    if operation.definition is not None:
        definition: JsonObject = operation.definition.payload
        return definition
    shown: JsonObject = {
        "name": fold(operation.name),
        "title": operation.title or operation.name,
        "description": operation.description,
        "inputSchema": operation.arguments,
    }
    if (output := _output_schema(operation)) is not None:
        shown["outputSchema"] = output
    return shown | {
        "annotations": {
            "title": operation.title or operation.name,
            "readOnlyHint": operation.effect is Effect.READ,
            "destructiveHint": operation.effect is Effect.DESTRUCTIVE,
        },
        "_meta": {
            "bascule/operation": operation.name,
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


def _output_schema(operation: Operation) -> JsonObject | None:
    if operation.result is None or confirmation_of(operation) is Confirmation.NONE:
        return operation.result
    # Clients hold every success to this schema, and a preview is a success of another shape.
    return {"type": "object", "anyOf": [operation.result, _PREVIEW]}


def for_era(definition: JsonObject, era: Era) -> JsonObject:
    """Return a tool as `era` can carry it: initialize-era clients choke on an output schema that is no object's."""
    output = definition.get("outputSchema")
    if era is Era.INITIALIZE and isinstance(output, Mapping) and output.get("type") != "object":
        return {name: value for name, value in definition.items() if name != "outputSchema"}
    return definition


# -- params to invocations --


def new_id() -> str:
    """Return a fresh operation id."""
    return uuid.uuid4().hex


def invocation(
    params: Mapping[str, Any], *, name: str, caller: Caller, trace: str, if_dropped: Cause
) -> Invocation | Refused:
    """Return the invocation that `params` of a `tools/call` ask for; `name` is the operation's, resolved.

    A key or deadline that cannot be read is refused: dropping it in silence would drop a promise.
    """
    meta = params.get("_meta")
    meta = meta if isinstance(meta, Mapping) else {}
    key, remaining = meta.get(KEY), meta.get(DEADLINE)
    if key is not None and not (isinstance(key, str) and _KEY_GRAMMAR.fullmatch(key)):
        return Refused(Category.INVALID_REQUEST, f"{KEY} must be 1 to {MAX_KEY} visible ASCII characters")
    if remaining is not None and (
        isinstance(remaining, bool) or not isinstance(remaining, (int, float)) or remaining <= 0
    ):
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
        remaining=None if remaining is None else remaining / 1000,
        key=key,
        answers=answers if isinstance(answers, dict) else {},
        if_dropped=if_dropped,
        params=Passed(params),
    )


# -- answers to results --


def result(answer: Answer, *, operation_id: str, era: Era) -> JsonObject:
    """Return the finished `tools/call` result of `answer`, without the serving side's own stamp.

    `Passed` is another server's result and keeps everything the era can carry; a `Fault` never comes here.
    """
    match answer:
        case Passed(payload):
            return _passed(payload, era)
        case Completed(value, applied):
            return _completed(value, applied, operation_id, era)
        case Refused(category, message):
            return _error(message, category, operation_id)
        case NeedsAnswer(message):
            return _error(message, Category.APPROVAL_PENDING, operation_id)
        case Failed():
            return _failed(answer, operation_id)
    raise TypeError(f"{type(answer).__name__} is no result of a call")


def _completed(value: JsonValue, applied: bool, operation_id: str, era: Era) -> JsonObject:
    meta: JsonObject = {OPERATION_ID: operation_id}
    structured = value if applied else {"applied": False, "plan": value}
    text = _text(structured)
    if not applied:
        text = f"Preview, not applied. Nothing was done. It would do:\n{_text(value)}"
        meta[OUTCOME] = {"state": "preview", "effect": EffectState.NONE.value}
    made: JsonObject = {"content": [], "isError": False, "_meta": meta}
    if isinstance(structured, dict) or (era is Era.MODERN and not isinstance(structured, (str, type(None)))):
        made["structuredContent"] = structured
    made["content"] = [{"type": "text", "text": _cut(text, made.get("structuredContent"))}]
    return made


def _failed(answer: Failed, operation_id: str) -> JsonObject:
    message = answer.message if answer.value is None else f"{answer.message}\n{_text(answer.value)}"
    made = _error(message, answer.category, operation_id)
    made["_meta"][OUTCOME] = {"state": "failed", "cause": answer.cause.value, "effect": answer.effect.value}
    return made


def _error(message: str, category: Category, operation_id: str) -> JsonObject:
    # Text alone: some clients show only structuredContent where there is one, and then the words would be lost.
    return {
        "content": [{"type": "text", "text": _cut(message, None)}],
        "isError": True,
        "_meta": {OPERATION_ID: operation_id, CATEGORY: category.value},
    }


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return "Done." if value is None else wire.write(value).decode()


def _cut(text: str, structured: JsonValue) -> str:
    size = len(text.encode("utf-8", "replace"))
    whole = size + (0 if structured is None else len(wire.write(structured)))
    if whole <= MAX_OWN_RESULT:
        return text
    if structured is not None:
        return f"{text[:EXCERPT]}\n[excerpt: {EXCERPT} characters of {size} bytes; structuredContent holds the whole]"
    kept = text.encode("utf-8", "replace")[:MAX_OWN_RESULT].decode("utf-8", "ignore")
    return f"{kept}\n[excerpt: {MAX_OWN_RESULT} of {size} bytes]"


_STATELESS_ONLY: Final = frozenset({"resultType", "ttlMs", "cacheScope"})


def _passed(payload: JsonObject, era: Era) -> JsonObject:
    if era is Era.MODERN:
        return dict(payload)
    if payload.get("resultType") == "input_required":
        words = "The controller asks a question first, and this client cannot show it. A person must answer it there."
        return _error(words, Category.APPROVAL_PENDING, str(payload.get("_meta", {}).get(OPERATION_ID, "")))
    kept = {name: value for name, value in payload.items() if name not in _STATELESS_ONLY}
    if "structuredContent" in kept and not isinstance(kept["structuredContent"], dict):
        del kept["structuredContent"]
    meta = kept.get("_meta")
    if isinstance(meta, Mapping) and SERVER_INFO in meta:
        kept["_meta"] = {name: value for name, value in meta.items() if name != SERVER_INFO}
    return kept


def stamped(made: JsonObject, server_info: JsonObject) -> JsonObject:
    """Return a 2026-07-28 result with what the revision requires of the one who serves it."""
    meta = made.get("_meta")
    own = {SERVER_INFO: server_info}
    return {"resultType": "complete", **made, "_meta": {**meta, **own} if isinstance(meta, Mapping) else own}
