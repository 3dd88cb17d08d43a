"""What is said on a pipe in place of an answer that cannot be written there. Pure.

When that is the case is left to `stdio`.
"""

from typing import Final

from mcp_types import INTERNAL_ERROR

from bascule.node.terms import JsonObject
from bascule.protocol.translate import OPERATION_ID

MAX_META: Final = 1000
"""Characters of a member of `_meta` that still goes along with an answer that is too large."""


def error(message: JsonObject, code: int, words: str) -> JsonObject:
    """Return the JSON-RPC error that stands in place of `message`, under its id."""
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": words}}


def too_large(message: JsonObject, size: int, room: int) -> JsonObject:
    """Return what is said in place of an answer that would kill the client: its true size, and the operation's id."""
    result = message.get("result")
    if not isinstance(result, dict) or "content" not in result:
        return error(message, INTERNAL_ERROR, f"The answer has {size} bytes; a line may have {room}")
    meta = result.get("_meta")
    operation = meta.get(OPERATION_ID) if isinstance(meta, dict) else None
    known = f" The operation is {operation}." if isinstance(operation, str) else ""
    words = (
        f"The operation was executed, but its answer of {size} bytes is over the {room} that a client can read.{known}"
    )
    small: JsonObject = {"content": [{"type": "text", "text": words}], "isError": True}
    small |= {name: result[name] for name in ("resultType",) if name in result}
    if isinstance(meta, dict):
        small["_meta"] = {name: value for name, value in meta.items() if len(repr(value)) < 1000}
    return {**{name: value for name, value in message.items() if name != "result"}, "result": small}
