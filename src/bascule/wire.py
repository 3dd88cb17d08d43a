"""JSON at every border: strict reading, exact writing. Pure functions.

What a message means is left to `protocol`; how lines and bodies are cut is left to its stdio framing and to the gates.
"""

from typing import Any, Final

import jiter
import msgspec

MAX_DEPTH: Final = 64
"""Levels of nesting accepted from outside: more than any real message needs, far below any parser's own limit."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder()


class WireError(ValueError):
    """The bytes are not the strict JSON we accept. The text names the rule and never quotes the input."""


def read(data: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Return the JSON value in `data`: member order kept, integers exact, other numbers their double.

    Raises:
        WireError: bad UTF-8, a BOM, a lone surrogate, duplicate keys, NaN or Infinity, a number over the range of a
            double or of more than 4,300 characters with its sign (the interpreter's own limit), deeper than
            `max_depth`, or not JSON at all (RFC 8259).
    """
    # Two passes on purpose: jiter alone refuses duplicate keys, msgspec alone refuses 1e999.
    try:
        jiter.from_json(data, catch_duplicate_keys=True, allow_inf_nan=False, cache_mode="keys")
        value = _decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise WireError(_reason(error)) from None
    if deeper_than(value, max_depth):
        raise WireError(f"nested deeper than {max_depth} levels")
    return value


def write(value: Any) -> bytes:
    """Return `value` as compact UTF-8 JSON without a line feed.

    Raises:
        WireError: `value` holds something JSON cannot carry: a non-finite number, a lone surrogate, a foreign type,
            itself, or more levels than the interpreter can descend.
    """
    # Encoded first: a value that holds itself ends there by its depth; walking it would never end.
    try:
        data = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"cannot be written as JSON: {type(error).__name__}") from None
    _check_plain(value)
    return data


def deeper_than(value: Any, limit: int) -> bool:
    """Whether JSON `value` has more than `limit` levels of objects and arrays; a scalar has none."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _reason(error: BaseException) -> str:
    text = str(error)
    if "uplicate" in text:
        return "an object has two members of one name"
    return "not valid JSON"


def _check_plain(value: Any) -> None:
    """Refuse what msgspec would write without a word: NaN as null, sets as lists, bytes and dates as strings."""
    stack = [value]
    while stack:
        item = stack.pop()
        if item is None or isinstance(item, (str, bool, int)):
            continue
        if isinstance(item, float):
            if item - item != 0.0:
                raise WireError("cannot be written as JSON: a number that is not finite")
        elif isinstance(item, dict):
            if not all(isinstance(name, str) for name in item):
                raise WireError("cannot be written as JSON: a member whose name is no string")
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        else:
            raise WireError(f"cannot be written as JSON: {type(item).__name__}")
