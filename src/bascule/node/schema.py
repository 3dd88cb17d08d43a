"""JSON Schema: compiled once, offline, with a linear-time regex engine, then used to read arguments strictly.

Which schema an operation has is left to its capability; when arguments are read is decided in `local`.
Dialect by `$schema` (2020-12 by default), no format checks, values masked in every message (jsonschema-rs).
"""

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from bascule import wire
from bascule.node.errors import InvalidOperationError
from bascule.node.terms import JsonObject, JsonValue

MAX_SCHEMA_BYTES: Final = 65_536
"""A schema is written by people or generated for them; more is a mistake or an attack on compile time."""

MAX_SCHEMA_NODES: Final = 10_000
"""Values inside one schema: nested combinators cost compile time by count, not by bytes."""

MAX_PATTERN_BYTES: Final = 200_000
"""Compiled size of one regular expression: refuses `(a{1000}){1000}` and its kind."""

MAX_VIOLATIONS: Final = 5
"""Violations told at once: enough to mend a call, bounded against a million bad items."""

MAX_WORDS: Final = 200
"""Characters of one violation's words: a schema's own enum may be long."""

_REPORTABLE_REFERENCES: Final = 64
"""Schemas with more `$ref`s only say that they do not fit: error details grow with 2^n of doubled references."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a value does not fit: where (JSON Pointer, RFC 6901), which rule, and words without the value."""

    pointer: str
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.words} (rule: {self.rule})"


class Schema:
    """A compiled schema. Reading is synchronous and its time is bounded by the sizes of schema and value."""

    __slots__ = ("_defaults", "_detailed", "_validator")

    def __init__(self, source: JsonObject) -> None:
        """Compile `source`.

        Raises:
            InvalidOperationError: too large or too deep, an unknown dialect, a remote or dangling reference, or a
                pattern that the linear engine refuses.
        """
        references = _measure(source)
        self._detailed = references <= _REPORTABLE_REFERENCES
        self._validator = _compile(source)
        properties = source.get("properties")
        self._defaults = {
            name: inner["default"]
            for name, inner in (properties.items() if isinstance(properties, dict) else ())
            if isinstance(inner, dict) and "default" in inner
        }

    def violations(self, value: JsonValue) -> Sequence[Violation]:
        """Return at most `MAX_VIOLATIONS` ways in which `value` does not fit; none when it fits."""
        if self._validator.is_valid(value):
            return ()
        if not self._detailed:
            return (Violation("", "schema", "the arguments do not fit the schema"),)
        errors = itertools.islice(self._validator.iter_errors(value), MAX_VIOLATIONS)
        return tuple(_violation(error) for error in errors)

    def completed(self, value: JsonObject) -> JsonObject:
        """Return `value` with the defaults of absent members filled in."""
        if not self._defaults:
            return value
        return {**copy.deepcopy(self._defaults), **value} if self._defaults.keys() - value.keys() else value


def compile_mirrored(source: JsonObject) -> tuple[Schema, tuple[str, ...]]:
    """Compile another server's schema; patterns the linear engine refuses are left out of the copy, and named.

    Leaving one out is safe here alone: the server that owns the schema still decides (architecture, rule 2).

    Raises:
        InvalidOperationError: unusable for any other reason.
    """
    remaining = copy.deepcopy(source)
    ignored: list[str] = []
    while True:
        try:
            return Schema(remaining), tuple(ignored)
        except InvalidPatternError as error:
            _remove(remaining, error.path)
            ignored.append(f"{_pointer(error.path)}: the pattern cannot be matched in linear time and is left out")


class InvalidPatternError(InvalidOperationError):
    """A regular expression that the linear engine refuses; `path` leads to it."""

    def __init__(self, message: str, path: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.path = path


def _measure(source: JsonValue) -> int:
    """Hold `source` to its limits; return how many references it has."""
    try:
        size = len(wire.write(source))
    except wire.WireError as error:
        raise InvalidOperationError(f"the schema is not JSON: {error}") from None
    if size > MAX_SCHEMA_BYTES:
        raise InvalidOperationError(f"the schema has {size} bytes, more than {MAX_SCHEMA_BYTES}")
    nodes = references = 0
    stack: list[tuple[Any, int]] = [(source, 1)]
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if depth > wire.MAX_DEPTH or nodes > MAX_SCHEMA_NODES:
            raise InvalidOperationError(
                f"the schema is deeper than {wire.MAX_DEPTH} or has over {MAX_SCHEMA_NODES} parts"
            )
        if isinstance(item, dict):
            references += "$ref" in item or "$dynamicRef" in item
            stack.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            stack.extend((inner, depth + 1) for inner in item)
    return references


def _compile(source: JsonObject) -> jsonschema_rs.Validator:
    try:
        # The default regex engine can hang and the default resolver fetches references: neither is ever used.
        return jsonschema_rs.validator_for(
            source,
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES),
            mask="<value>",
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        path = tuple(getattr(error, "instance_path", ()))
        where = _pointer(path) or "/"
        if path and (path[-1] == "pattern" or "patternProperties" in path) and "regex" in str(error):
            words = (
                f"at {where}: a pattern that cannot be matched in linear time (lookaround, back-reference, too large)"
            )
            raise InvalidPatternError(words, path) from None
        first_line = str(error).partition("\n")[0][:MAX_WORDS]
        raise InvalidOperationError(f"the schema cannot be used, at {where}: {first_line}") from None


def _violation(error: jsonschema_rs.ValidationError) -> Violation:
    return Violation(_pointer(error.instance_path), error.kind.name, _cut(error.message))


def _cut(words: str) -> str:
    return words if len(words) <= MAX_WORDS else words[:MAX_WORDS] + "..."


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _remove(schema: Any, path: tuple[str | int, ...]) -> None:
    # A key of patternProperties is itself the pattern; its error points at the map or at the key.
    *above, last = path
    for step in above:
        schema = schema[step]
    if last == "patternProperties":
        del schema[last]
    elif isinstance(schema, dict):
        schema.pop(last, None)
