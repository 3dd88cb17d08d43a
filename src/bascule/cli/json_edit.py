"""Puts one member, or one item of a list, into a JSON text and leaves every other character as it is.

Which member and which file is left to `clients` and `connect`, reading to `json_places`.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bascule.cli.json_places import NotEditableError, Plain, Value, places

_REST_OF_LINE: Final = re.compile(r"(?:[ \t]|/\*[^\r\n]*?\*/)*+(?://[^\r\n]*)?(?=\r?\n|$)")
"""What may stand behind a value on its own line and belongs to it: space and comments."""


@dataclass(frozen=True, slots=True)
class _Style:
    """How the file is laid out."""

    newline: str
    unit: str
    """One level of indentation."""


def with_member(source: str, path: Sequence[str], value: Any) -> str:
    """Return `source` with the member at `path` set to `value`; objects missing on the way are made.

    Raises:
        NotEditableError: not clean JSON or JSON5, a name on the way twice, or something on the way that is no object.
    """
    root = places(source)
    style = _style(source, root)
    if root is None:
        return _appended(source, _nested(path, value), style)
    here, left = _descend(root, path)
    if left:
        name, *rest = left
        edited = _inserted(source, here, lambda margin: _member(name, _nested(rest, value), style, margin), style)
    else:
        rendered = _rendered(value, style, _margin(source, here.start))
        edited = source[: here.start] + rendered + source[here.end :]
    _check(root, edited, path, value)
    return edited


def with_item(source: str, name: str, item: dict[str, Any], *, key: str) -> str:
    """Return `source` with `item` in the list `name` of the root, unless an item with the same `key` is there already.

    Raises:
        NotEditableError: see `with_member`; or `name` is there and is no list.
    """
    root = places(source)
    listed = root.member(name) if root is not None and root.kind == "object" else None
    if listed is None:
        return with_member(source, [name], [item])
    if listed.kind != "array":
        raise NotEditableError(f"{name} is there, but is no list")
    if any(_text_of(part.value, key) == item[key] for part in listed.parts):
        return source
    style = _style(source, root)
    edited = _inserted(source, listed, lambda margin: _rendered(item, style, margin), style)
    expected = (*(part.value.plain() for part in listed.parts), _plain(item))
    after = places(edited)
    found = after.member(name) if after is not None else None
    if found is None or tuple(part.value.plain() for part in found.parts) != expected:
        raise NotEditableError("editing it would change more than the entry")
    return edited


def _descend(root: Value, path: Sequence[str]) -> tuple[Value, Sequence[str]]:
    """Return the value at `path`, or the innermost object on the way to it and the steps that are missing."""
    here = root
    for position, step in enumerate(path):
        if here.kind != "object":
            raise NotEditableError(f"{path[position - 1] if position else 'the whole'} is there, but is no object")
        found = here.member(step)
        if found is None:
            return here, path[position:]
        here = found
    return here, ()


def _inserted(source: str, container: Value, render: Callable[[str], str], style: _Style) -> str:
    """Return `source` with one more part at the end of `container`; `render` gives its text for a margin.

    1. In front of it, the last part gets its comma, where it has none, and keeps the comments on its line.
    2. A trailing comma is kept up where the file has the habit.
    3. What stood before the closing bracket stays before it.
    """
    outer = _margin(source, container.start)
    margin = _inner_margin(source, container, outer, style)
    piece = style.newline + margin + render(margin)
    inside = container.end - 1
    closing = style.newline + outer if "\n" not in source[container.start : container.end] else ""
    if not container.parts:  # 3
        at = container.start + 1 + len(source[container.start + 1 : inside].rstrip())
        return source[:at] + piece + style.newline + outer + source[inside:]
    end = container.parts[-1].value.end
    if container.comma is not None:  # 2
        at = _end_of_line(source, container.comma, inside)
        return source[:at] + piece + "," + closing + source[at:]
    at = _end_of_line(source, end, inside)  # 1
    return source[:end] + "," + source[end:at] + piece + closing + source[at:]


def _end_of_line(source: str, at: int, limit: int) -> int:
    found = _REST_OF_LINE.match(source, at, limit)
    return at + len(found[0].rstrip()) if found else at


def _margin(source: str, at: int) -> str:
    """Return the indentation of the line on which `at` is."""
    line = source[source.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _inner_margin(source: str, container: Value, outer: str, style: _Style) -> str:
    if container.parts:
        start = container.parts[0].start
        before = source[source.rfind("\n", 0, start) + 1 : start]
        if before and not before.strip(" \t"):
            return before
    return outer + style.unit


def _style(source: str, root: Value | None) -> _Style:
    first = source.find("\n")
    newline = "\r\n" if first > 0 and source[first - 1] == "\r" else "\n"
    unit = _margin(source, root.parts[0].start) if root is not None and root.parts else ""
    return _Style(newline, unit or "  ")


def _rendered(value: Any, style: _Style, margin: str) -> str:
    lines = json.dumps(value, indent=style.unit, ensure_ascii=False).split("\n")
    return (style.newline + margin).join(lines)


def _member(name: str, value: Any, style: _Style, margin: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}: {_rendered(value, style, margin)}"


def _appended(source: str, value: Any, style: _Style) -> str:
    before = source.rstrip()
    return before + (style.newline if before else "") + _rendered(value, style, "") + style.newline


def _nested(path: Sequence[str], value: Any) -> Any:
    for step in reversed(path):
        value = {step: value}
    return value


def _text_of(value: Value, name: str) -> str | None:
    found = value.member(name) if value.kind == "object" else None
    return found.text if found is not None and found.kind == "string" else None


def _plain(value: Any) -> Plain:
    made = places(json.dumps(value, ensure_ascii=False))
    if made is None:
        raise NotEditableError("there is nothing to write")
    return made.plain()


def _check(before: Value, edited: str, path: Sequence[str], value: Any) -> None:
    """Hold the edit to its promise: the member is there and everything else is what it was."""
    after = places(edited)
    if after is None or after.plain() != _put(before.plain(), list(path), value):
        raise NotEditableError("editing it would change more than the entry")


def _put(whole: Any, path: Sequence[str], value: Any) -> Plain:
    if not path:
        return _plain(value)
    step, *rest = path
    kind, pairs = whole
    if step not in [name for name, _ in pairs]:
        return kind, (*pairs, (step, _plain(_nested(rest, value))))
    return kind, tuple((name, _put(old, rest, value) if name == step else old) for name, old in pairs)
