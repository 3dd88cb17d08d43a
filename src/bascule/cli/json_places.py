"""Where everything stands in a JSON text as clients write it: comments, trailing commas, JSON5 keys and strings. Pure.

Changing the text is left to `json_edit`; no library at hand gives places and takes JSON5, and clients' files are JSON5.
"""

import json
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

MAX_TEXT: Final = 16 * 1024 * 1024
"""Characters of a file that is looked at; the largest client state files are a few MiB."""

MAX_DEPTH: Final = 100
"""Brackets in brackets; settings of clients have about ten."""

Plain: TypeAlias = "str | tuple[str, tuple[object, ...]]"
"""A value without its places: scalars as written, strings decoded, objects as pairs in order."""

_SPACE: Final = re.compile(r"(?:[\s\ufeff]|//[^\r\n]*|/\*(?s:.*?)\*/)*+")
_STRING: Final = re.compile(r'"(?:[^"\\\r\n]|\\(?s:.))*+"' + r"|'(?:[^'\\\r\n]|\\(?s:.))*+'")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*")
_SCALAR: Final = re.compile(
    r"(?:true|false|null|[+-]?(?:Infinity|NaN|0[xX][0-9A-Fa-f]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))(?![\w$.])"
)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(\r\n|(?s:.)))")
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}


class NotEditableError(Exception):
    """The text cannot be edited safely; the words say why."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value and its place, as indices into the text."""

    kind: str
    """object, array, string or scalar."""
    start: int
    end: int
    text: str = ""
    """A scalar as written, a string decoded."""
    parts: tuple["Part", ...] = ()
    """Members of an object, items of an array."""
    comma: int | None = None
    """Behind the trailing comma, where there is one."""

    def member(self, name: str) -> "Value | None":
        """Return the value of a member, or None.

        Raises:
            NotEditableError: it stands in the object twice, and readers disagree on which one counts.
        """
        found = [part.value for part in self.parts if part.name == name]
        if len(found) > 1:
            raise NotEditableError(f"{name} stands in it twice")
        return found[0] if found else None

    def plain(self) -> Plain:
        """Return the value without its places, to be compared."""
        if self.kind in ("string", "scalar"):
            return self.kind, (self.text,)
        return self.kind, tuple((part.name, part.value.plain()) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Part:
    """A member or an item; an item has no name."""

    start: int
    value: Value
    name: str | None = None


def places(text: str) -> Value | None:
    """Return the one value of `text`, or None where it has nothing but space and comments.

    Raises:
        NotEditableError: it is neither JSON nor JSON5, with the line where reading ended.
    """
    if len(text) > MAX_TEXT:
        raise NotEditableError(f"it is larger than {MAX_TEXT} characters")
    reader = _Reader(text)
    at = reader.space(0)
    if at == len(text):
        return None
    value = reader.value(at, 0)
    at = reader.space(value.end)
    if at != len(text):
        raise reader.error(at)
    return value


class _Reader:
    """Reads one text by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, at: int) -> NotEditableError:
        return NotEditableError(f"it is not clean JSON (line {self._text.count(chr(10), 0, at) + 1})")

    def space(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise NotEditableError(f"it is nested deeper than {MAX_DEPTH}")
        if self._text[at : at + 1] in ("{", "["):
            return self._container(at, depth)
        if found := _STRING.match(self._text, at):
            return Value("string", at, found.end(), self._decoded(found))
        if found := _SCALAR.match(self._text, at):
            return Value("scalar", at, found.end(), found[0])
        raise self.error(at)

    def _container(self, start: int, depth: int) -> Value:
        kind, close = ("object", "}") if self._text[start] == "{" else ("array", "]")
        parts: list[Part] = []
        comma: int | None = None
        at = self.space(start + 1)
        while self._text[at : at + 1] != close:
            if parts and comma is None:
                raise self.error(at)
            part = self._member(at, depth) if kind == "object" else Part(at, self.value(at, depth + 1))
            parts.append(part)
            at = self.space(part.value.end)
            comma = at + 1 if self._text[at : at + 1] == "," else None
            at = self.space(comma or at)
        return Value(kind, start, at + 1, parts=tuple(parts), comma=comma)

    def _member(self, start: int, depth: int) -> Part:
        if found := _STRING.match(self._text, start):
            name = self._decoded(found)
        elif found := _NAME.match(self._text, start):
            name = found[0]
        else:
            raise self.error(start)
        at = self.space(found.end())
        if self._text[at : at + 1] != ":":
            raise self.error(at)
        return Part(start, self.value(self.space(at + 1), depth + 1), name)

    def _decoded(self, found: re.Match[str]) -> str:
        try:
            # Most strings are JSON's own, and its reader is the measure for them.
            return str(json.loads(found[0]))
        except ValueError:
            decoded = _ESCAPE.sub(_unescaped, found[0][1:-1])
            return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    return chr(int(digits, 16)) if digits else _ESCAPED.get(found[3], found[3])
