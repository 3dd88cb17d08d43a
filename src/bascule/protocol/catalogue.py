"""What one caller is shown at one revision: tools in order, by era and page, and the names they go by. Pure.

Which operations these are is the node's; a definition that no client could read is set aside, never fatal to the rest.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_types import methods
from pydantic import ValidationError

from bascule import wire
from bascule.node.errors import InvalidOperationError
from bascule.node.schema import compile_mirrored
from bascule.node.terms import JsonObject, Offer, Operation
from bascule.protocol.translate import REAL_NAME, Era, fold, for_era, tool, without_output_schema
from bascule.protocol.versions import INITIALIZE_ERA, MODERN

PAGE: Final = 500
"""Tools of one page: ordinary catalogues are one page, because some clients read only the first."""

PAGE_BYTES: Final = 4_194_304
"""Bytes of one page as JSON: a listing stays far below the line that kills a client, however large its schemas."""

SHOWN_WHOLE: Final = 64
"""Characters of a name that the strictest clients show; a longer one is listed, with a warning."""

_CHECKED_AS: Final = {Era.MODERN: MODERN, Era.INITIALIZE: INITIALIZE_ERA[-1]}

Notes = tuple[tuple[str, str], ...]
"""(name, what about it), for the log."""


class InvalidCursorError(ValueError):
    """A cursor that this server did not give, or gave at another revision."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The projection of one offer. `Catalogue()` is what is shown where no offer could be had: nothing."""

    revision: int = 0
    pages: dict[Era, tuple[tuple[JsonObject, ...], ...]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """From every spelling of a tool to its operation's name."""
    structured: frozenset[str] = frozenset()
    """Operations shown with an output schema of our own: each success must carry a structured value."""
    mirrored: dict[str, JsonObject] = field(default_factory=dict)
    """Operations some of whose arguments HTTP clients repeat in headers (`x-mcp-header`), and their input schemas."""
    set_aside: Notes = ()
    """Definitions that are not shown, to everybody or to one era."""
    warnings: Notes = ()
    """Definitions that are shown, but not by every client or not whole."""

    def operation_of(self, name: str) -> str:
        """Return the operation that `name` stands for; a name nobody knows stands for itself."""
        return self.names.get(name, name)

    def page(self, era: Era, cursor: str | None) -> tuple[tuple[JsonObject, ...], str | None]:
        """Return the tools at `cursor` and the cursor of the next page, if there is one.

        A cursor holds for one revision: pages of two revisions put together would miss tools or show them twice.

        Raises:
            InvalidCursorError: the cursor is not of this catalogue.
        """
        pages = self.pages.get(era, ())
        at = 0 if cursor is None else self._position(cursor, len(pages))
        shown = pages[at] if pages else ()
        return shown, self._cursor(at + 1) if at + 1 < len(pages) else None

    def _cursor(self, at: int) -> str:
        return base64.urlsafe_b64encode(f"{self.revision}:{at}".encode()).decode()

    def _position(self, cursor: str, pages: int) -> int:
        try:
            at = int(base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")[2])
        except (ValueError, binascii.Error):
            at = 0
        # Only what this catalogue would itself give is known: written again it must be the same, byte for byte.
        if not 0 < at < pages or self._cursor(at) != cursor:
            raise InvalidCursorError("Unknown cursor; list again from the first page")
        return at


@dataclass(slots=True)
class _Listed:
    """One tool on its way into the catalogue."""

    operation: Operation
    name: str
    shown: dict[Era, JsonObject]

    @property
    def schema(self) -> JsonObject:
        schema: JsonObject = next(iter(self.shown.values()))["inputSchema"]
        return schema


def project(offer: Offer) -> Catalogue:
    """Return the catalogue of `offer`.

    Set aside are definitions that no era can read and, of two tools of one name, the second: the first keeps what its
    callers already use. An output schema that cannot be used is left out, because one of them keeps a client from
    starting the whole server, while a tool works without it.
    """
    aside, warnings = list(offer.set_aside), list[tuple[str, str]]()
    listed: list[_Listed] = []
    taken: set[str] = set()
    for operation, shown in zip(offer.operations, _by_era(offer.operations, warnings), strict=True):
        if remark := _unreadable(shown):
            aside.append((operation.name, remark))
        readable = {era: made for era, made in shown.items() if not isinstance(made, str)}
        if not readable:
            continue
        name = str(next(iter(readable.values()))["name"])
        if name in taken:
            aside.append((operation.name, f"another tool is already called {name}"))
            continue
        taken.add(name)
        listed.append(_Listed(operation, name, readable))
        warnings.extend((operation.name, remark) for remark in _remarks(listed[-1]))
    return Catalogue(
        revision=int(offer.revision),
        pages={era: _paged([one.shown[era] for one in listed if era in one.shown]) for era in Era},
        names=_names(listed),
        structured=frozenset(one.operation.name for one in listed if _promises_structure(one)),
        mirrored={one.operation.name: one.schema for one in listed if _in_headers(one.schema)},
        set_aside=tuple(aside),
        warnings=tuple(warnings),
    )


def _in_headers(schema: JsonObject) -> bool:
    return bool(x_mcp_header_map(schema)) and find_invalid_x_mcp_header(schema) is None


def _remarks(one: _Listed) -> Iterator[str]:
    if len(one.name) > SHOWN_WHOLE:
        yield f"its name has {len(one.name)} characters; some clients cut at {SHOWN_WHOLE}"
    if reason := find_invalid_x_mcp_header(one.schema):
        yield f"clients of {MODERN} over HTTP leave it out: {reason}"


def _unreadable(shown: dict[Era, JsonObject | str]) -> str:
    problems = {era: made for era, made in shown.items() if isinstance(made, str)}
    if not problems:
        return ""
    who = "no client" if len(problems) == len(shown) else f"no {next(iter(problems)).value} client"
    return f"{who} can read its definition: {next(iter(problems.values()))}"


def _promises_structure(one: _Listed) -> bool:
    return one.operation.definition is None and any("outputSchema" in made for made in one.shown.values())


def _names(listed: Sequence[_Listed]) -> dict[str, str]:
    # What a tool and an operation are really called comes before what something else may also be called.
    exact = {one.name: one.operation.name for one in listed}
    exact |= {one.operation.name: one.operation.name for one in listed if one.operation.name not in exact}
    for one in listed:
        for alias in _aliases(one):
            exact.setdefault(alias, one.operation.name)
    return exact


def _aliases(one: _Listed) -> Iterator[str]:
    yield fold(one.operation.name)
    for definition in one.shown.values():
        meta = definition.get("_meta")
        if isinstance(meta, dict) and isinstance(real := meta.get(REAL_NAME), str):
            yield real


def _paged(tools: Sequence[JsonObject]) -> tuple[tuple[JsonObject, ...], ...]:
    pages: list[list[JsonObject]] = []
    room = 0
    for made in tools:
        size = len(wire.write(made))
        if not pages or len(pages[-1]) >= PAGE or size > room:
            pages.append([])
            room = PAGE_BYTES
        pages[-1].append(made)
        room -= size
    return tuple(tuple(page) for page in pages)


# -- is a definition readable? --


def _by_era(operations: Sequence[Operation], warnings: list[tuple[str, str]]) -> Iterator[dict[Era, JsonObject | str]]:
    """Yield, for each operation, its definition for each era, or why that era cannot read it."""
    made = [_definition(operation, warnings) for operation in operations]
    # One check of all is far cheaper than one each; only where it fails is each looked at by itself.
    sound = {era: _problem(era, [one for one in made if isinstance(one, dict)]) is None for era in Era}
    for operation, definition in zip(operations, made, strict=True):
        if isinstance(definition, str):
            yield dict.fromkeys(Era, definition)
            continue
        yield {
            era: for_era(definition, era) if sound[era] else _readable(operation, definition, era, warnings)
            for era in Era
        }


def _definition(operation: Operation, warnings: list[tuple[str, str]]) -> JsonObject | str:
    """Return the definition of `operation` with an output schema only if that can be used, or why there is none."""
    made = tool(operation)
    if not isinstance(made, dict) or not isinstance(made.get("name"), str) or not made["name"]:
        return "it is no object with a name"
    try:
        wire.write(made)
    except wire.WireError as error:
        return str(error)
    output = made.get("outputSchema")
    if operation.definition is None or not isinstance(output, dict):
        return made
    try:
        compile_mirrored(output)
    except InvalidOperationError as error:
        warnings.append((operation.name, f"its output schema cannot be used and is left out: {error}"))
        return without_output_schema(made)
    return made


def _readable(
    operation: Operation, definition: JsonObject, era: Era, warnings: list[tuple[str, str]]
) -> JsonObject | str:
    shown = for_era(definition, era)
    problem = _problem(era, [shown])
    if problem is None:
        return shown
    bare = without_output_schema(shown)
    if _problem(era, [bare]) is None:
        warnings.append((operation.name, f"its output schema is left out for {era.value} clients: {problem}"))
        return bare
    return problem


def _problem(era: Era, definitions: Sequence[JsonObject]) -> str | None:
    """Return why the SDK would refuse to list `definitions` to `era`, or None."""
    shown = [for_era(definition, era) for definition in definitions]
    listing = {"tools": shown, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        methods.validate_server_result("tools/list", _CHECKED_AS[era], listing)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = "/".join(str(step) for step in first["loc"][2:])
        return f"{where}: {first['msg']}"
    return None
