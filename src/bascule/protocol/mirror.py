"""Another server's tools as operations: read from its listing, each checked for itself, bad ones set aside. Pure.

Fetching pages is left to `remote`; showing the definitions again to `catalogue`, which forwards them unread.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map

from bascule.node.errors import InvalidOperationError
from bascule.node.schema import Schema, compile_mirrored
from bascule.node.terms import DEFAULT_TIMEOUT, Category, Effect, JsonObject, JsonValue, Operation, Passed, Refused
from bascule.protocol.translate import fold

MAX_TOOLS: Final = 10_000
"""Tools of one server: thousands are real, more would be a listing without an end."""

MAX_TIMEOUT: Final = 86_400.0
"""Seconds a mirrored tool may claim to need (a day); beyond, or unreadable, it gets the default."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""MCP 2025-11-25, tool names."""

_MAX_SHOWN: Final = 128


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One tool of the other server, with what is worked out once."""

    name: str
    """As the other server calls it."""
    operation: Operation
    schema: Schema
    headers: Mapping[tuple[str, ...], str]
    """Arguments that ride on headers as well (`x-mcp-header`)."""

    def refusal(self, arguments: JsonValue) -> Refused | None:
        """Return why `arguments` do not fit, with JSON Pointer and rule; None when they do."""
        if not isinstance(arguments, dict):
            return Refused(Category.INVALID_REQUEST, "The arguments do not fit: /: not a JSON object (rule: type)")
        violations = self.schema.violations(arguments)
        if not violations:
            return None
        told = "; ".join(str(violation) for violation in violations)
        return Refused(Category.INVALID_REQUEST, f"The arguments do not fit: {told}", "arguments do not fit the schema")

    def header_fields(self, arguments: JsonObject) -> dict[str, str]:
        """Return the `Mcp-Param-*` fields of a call with `arguments`."""
        return mcp_param_headers(self.headers, arguments) if self.headers else {}


@dataclass(frozen=True, slots=True)
class Mirror:
    """Everything another server offered, at one moment."""

    tools: Mapping[str, Mirrored] = field(default_factory=dict)
    """By the other server's name, in its order."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """From every other spelling to that name."""
    set_aside: tuple[tuple[str, str], ...] = ()
    """(name, reason)."""

    def find(self, name: str) -> Mirrored | None:
        """Return the tool that `name` stands for, in any spelling."""
        return self.tools.get(name) or self.tools.get(self.spellings.get(name, ""))

    def same_as(self, other: "Mirror") -> bool:
        """Whether both would be shown alike."""
        return self.set_aside == other.set_aside and [t.operation for t in self.tools.values()] == [
            t.operation for t in other.tools.values()
        ]


def read_tools(definitions: Iterable[JsonValue]) -> Mirror:
    """Return the mirror of a listing's `tools`, whatever is in it."""
    tools: dict[str, Mirrored] = {}
    spellings: dict[str, str] = {}
    aside: list[tuple[str, str]] = []
    for definition in itertools.islice(definitions, MAX_TOOLS):
        try:
            mirrored, notes = _read(definition)
        except (InvalidOperationError, _UnfitError) as error:
            aside.append((_shown(definition), str(error)))
            continue
        if mirrored.name in tools:
            aside.append((mirrored.name, "another tool has this name"))
            continue
        tools[mirrored.name] = mirrored
        aside.extend((mirrored.name, note) for note in notes)
        spellings.update(dict.fromkeys(_other_spellings(mirrored), mirrored.name))
    return Mirror(tools, spellings, tuple(aside))


class _UnfitError(ValueError):
    """A definition that cannot be offered; the text says why."""


def _read(definition: JsonValue) -> tuple[Mirrored, tuple[str, ...]]:
    if not isinstance(definition, dict):
        raise _UnfitError("its definition is not an object")
    name, source = definition.get("name"), definition.get("inputSchema")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _UnfitError("its name is not 1 to 128 of A-Z a-z 0-9 _ - .")
    if not isinstance(source, dict) or source.get("type") != "object":
        raise _UnfitError("its inputSchema is not the schema of an object")
    if (problem := find_invalid_x_mcp_header(source)) is not None:
        raise _UnfitError(f"its inputSchema is refused by MCP: {problem}")
    schema, ignored = compile_mirrored(source)
    shown, notes = _presentable(definition)
    operation = Operation(
        name=name,
        description=str(definition.get("description") or ""),
        arguments=source,
        effect=_effect(definition.get("annotations")),
        title=str(definition.get("title") or ""),
        timeout=_timeout(definition.get("_meta")),
        definition=Passed(shown),
    )
    return Mirrored(name, operation, schema, x_mcp_header_map(source)), ignored + notes


def _presentable(definition: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the definition as it is shown on: as it came, but for what takes whole clients down."""
    shown, notes = definition, ()
    name = definition["name"]
    if fold(name) != name:
        meta = definition.get("_meta")
        kept = meta if isinstance(meta, dict) else {}
        real = {"bascule/operation": kept.get("bascule/operation", name)}
        shown = {**shown, "name": fold(name), "title": shown.get("title") or name, "_meta": {**kept, **real}}
    if "outputSchema" in shown:
        try:
            compile_mirrored(_as_schema(shown["outputSchema"]))
        except InvalidOperationError as error:
            shown = {key: value for key, value in shown.items() if key != "outputSchema"}
            return shown, (f"its outputSchema is left out: {error}",)
    return shown, notes


def _as_schema(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise InvalidOperationError("it is not an object")
    return value


def _effect(annotations: JsonValue) -> Effect:
    """Read the hints as MCP means them: what is not said to be harmless is destructive."""
    hints: Mapping[str, Any] = annotations if isinstance(annotations, dict) else {}
    if hints.get("readOnlyHint") is True:
        return Effect.READ
    return Effect.WRITE if hints.get("destructiveHint") is False else Effect.DESTRUCTIVE


def _timeout(meta: JsonValue) -> float:
    claimed = meta.get("bascule/timeoutMs") if isinstance(meta, dict) else None
    return seconds(claimed, MAX_TIMEOUT) or DEFAULT_TIMEOUT


def seconds(milliseconds: JsonValue, most: float) -> float | None:
    """Return `milliseconds` of another server in seconds; None when they are none, or over `most` seconds.

    Compared before they are divided: a whole number of 400 digits is JSON too, and no division survives it.
    """
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, (int, float)):
        return None
    return milliseconds / 1000 if 0 < milliseconds <= most * 1000 else None


def _other_spellings(mirrored: Mirrored) -> set[str]:
    meta = mirrored.operation.definition.payload.get("_meta") if mirrored.operation.definition else None
    real = meta.get("bascule/operation") if isinstance(meta, dict) else None
    return {fold(mirrored.name)} | ({real} if isinstance(real, str) else set())


def _shown(definition: JsonValue) -> str:
    name = definition.get("name") if isinstance(definition, dict) else None
    text = name if isinstance(name, str) else "(without a name)"
    return "".join(character if character.isprintable() else "?" for character in text[:_MAX_SHOWN])
