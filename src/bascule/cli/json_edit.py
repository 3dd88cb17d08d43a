"""Puts one member into a JSON file and leaves everything else as it is, comments and layout included.

Which member and which file is left to `clients`; a file that does not parse cleanly is never edited (tree-sitter gives
the places, JSON parsers give values without them).
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import tree_sitter
import tree_sitter_json

_LANGUAGE: Final = tree_sitter.Language(tree_sitter_json.language())


class NotEditableError(Exception):
    """The text cannot be edited safely; the words say why."""


def with_member(source: str, path: Sequence[str], value: Any) -> str:
    """Return `source` with the member at `path` set to `value`; objects missing on the way are made.

    Raises:
        NotEditableError: not clean JSON (comments are fine), or something on the way is no object.
    """
    if not source.strip():
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False) + "\n"
    newline = "\r\n" if "\r\n" in source else "\n"
    data = source.encode()
    root = _root(data)
    edited = _edit(data, root, list(path), value, _indent(data, root), newline).decode()
    _check(source, edited, path, value)
    return edited


def _root(data: bytes) -> Any:
    tree = tree_sitter.Parser(_LANGUAGE).parse(data)
    values = [child for child in tree.root_node.named_children if child.type != "comment"]
    if tree.root_node.has_error or len(values) != 1 or values[0].type != "object":
        raise NotEditableError("it is not clean JSON with one object (comments are fine, trailing commas are not)")
    return values[0]


def _edit(data: bytes, node: Any, path: list[str], value: Any, indent: str, newline: str, depth: int = 0) -> bytes:
    pairs = _pairs(node)
    step, *rest = path
    matching = [pair for pair in pairs if _key(pair) == step]
    if len(matching) > 1:
        raise NotEditableError(f"{step} stands in it twice")
    if not matching:
        return _insert(data, node, pairs, step, _nested(rest, value) if rest else value, indent, newline, depth)
    target = matching[0].child_by_field_name("value")
    if not rest:
        return data[: target.start_byte] + _text(value, indent, newline, depth + 1) + data[target.end_byte :]
    if target.type != "object":
        raise NotEditableError(f"{step} is there, but is no object")
    return _edit(data, target, rest, value, indent, newline, depth + 1)


def _insert(
    data: bytes, node: Any, pairs: Sequence[Any], name: str, value: Any, indent: str, newline: str, depth: int
) -> bytes:
    member = json.dumps(name, ensure_ascii=False).encode() + b": " + _text(value, indent, newline, depth + 1)
    margin = (newline + indent * (depth + 1)).encode()
    if pairs:
        at = pairs[-1].end_byte
        return data[:at] + b"," + margin + member + data[at:]
    at = node.start_byte + 1
    closing = (newline + indent * depth).encode()
    return data[:at] + margin + member + closing + data[at:].lstrip()


def _text(value: Any, indent: str, newline: str, depth: int) -> bytes:
    lines = json.dumps(value, indent=indent, ensure_ascii=False).split("\n")
    return (newline + indent * depth).join(lines).encode()


def _pairs(node: Any) -> list[Any]:
    return [child for child in node.named_children if child.type == "pair"]


def _key(pair: Any) -> str:
    return str(json.loads(pair.child_by_field_name("key").text.decode()))


def _indent(data: bytes, root: Any) -> str:
    """Return one level of indentation, as the file has it."""
    pairs = _pairs(root)
    if not pairs:
        return "  "
    line = data[: pairs[0].start_byte].rpartition(b"\n")[2].decode()
    return line if line and not line.strip() else "  "


def _nested(path: Sequence[str], value: Any) -> Any:
    for step in reversed(path):
        value = {step: value}
    return value


def _value(node: Any) -> Any:
    if node.type == "object":
        return {_key(pair): _value(pair.child_by_field_name("value")) for pair in _pairs(node)}
    if node.type == "array":
        return [_value(child) for child in node.named_children if child.type != "comment"]
    return json.loads(node.text.decode())


def _check(before: str, after: str, path: Sequence[str], value: Any) -> None:
    """Hold the edit to its promise: the member is there and everything else is what it was."""
    old, new = _value(_root(before.encode())), _value(_root(after.encode()))
    *above, last = path
    here = old
    for step in above:
        here = here.setdefault(step, {})
    here[last] = value
    if old != new:
        raise NotEditableError("editing it would change more than the entry")


def member(source: str, path: Sequence[str]) -> Any:
    """Return the value at `path`, or None where there is none.

    Raises:
        NotEditableError: not clean JSON.
    """
    here = _value(_root(source.encode()))
    for step in path:
        if not isinstance(here, dict) or step not in here:
            return None
        here = here[step]
    return here
