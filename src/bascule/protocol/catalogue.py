"""What one caller is shown at one revision: tools in order, by era and page, and the names they go by.

Which operations these are is the node's; a definition that no client could read is set aside, never fatal to the rest.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import methods
from pydantic import ValidationError

from bascule.node.terms import JsonObject, Offer, Operation
from bascule.protocol.translate import Era, fold, for_era, tool
from bascule.protocol.versions import INITIALIZE_ERA, MODERN

PAGE: Final = 500
"""Tools of one page: ordinary catalogues are one page, as some clients only read the first; thousands still fit a line."""

_REAL_NAME: Final = "bascule/operation"

_CHECKED_AS: Final = {Era.MODERN: MODERN, Era.INITIALIZE: INITIALIZE_ERA[-1]}


class InvalidCursorError(ValueError):
    """A cursor that this server did not give, or gave at another revision."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The projection of one offer."""

    revision: int
    tools: dict[Era, tuple[JsonObject, ...]]
    names: dict[str, str]
    """From every spelling of a tool to its operation's name."""
    set_aside: tuple[tuple[str, str], ...]
    """(name, reason)."""

    def operation_of(self, name: str) -> str:
        """Return the operation that `name` stands for; a name nobody knows stands for itself."""
        return self.names.get(name, name)

    def page(self, era: Era, cursor: str | None) -> tuple[tuple[JsonObject, ...], str | None]:
        """Return the tools at `cursor` and the cursor of the next page, if there is one.

        Raises:
            InvalidCursorError: the cursor is not of this catalogue.
        """
        start = 0 if cursor is None else self._start(cursor)
        tools = self.tools[era]
        end = start + PAGE
        return tools[start:end], self._cursor(end) if end < len(tools) else None

    def _cursor(self, start: int) -> str:
        return base64.urlsafe_b64encode(f"{self.revision}:{start}".encode()).decode()

    def _start(self, cursor: str) -> int:
        try:
            revision, _, start = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
            if int(revision) == self.revision and int(start) > 0 and int(start) % PAGE == 0:
                return int(start)
        except (ValueError, binascii.Error):
            pass
        raise InvalidCursorError("unknown cursor; list again from the first page")


def project(offer: Offer) -> Catalogue:
    """Return the catalogue of `offer`. Of two tools that fold alike the second is set aside."""
    tools: dict[Era, list[JsonObject]] = {era: [] for era in Era}
    names: dict[str, str] = {}
    aside = list(offer.set_aside)
    taken: set[str] = set()
    for operation in offer.operations:
        definition = tool(operation)
        shown = definition.get("name")
        problem = "another tool folds to the same name" if shown in taken else _problem(definition)
        if problem:
            aside.append((operation.name, problem))
            continue
        taken.add(str(shown))
        names |= dict.fromkeys(_spellings(operation, definition), operation.name)
        for era in Era:
            tools[era].append(for_era(definition, era))
    return Catalogue(int(offer.revision), {era: tuple(listed) for era, listed in tools.items()}, names, tuple(aside))


def _spellings(operation: Operation, definition: JsonObject) -> set[str]:
    meta = definition.get("_meta")
    real = meta.get(_REAL_NAME) if isinstance(meta, dict) else None
    return {operation.name, fold(operation.name), str(definition["name"])} | (
        {real} if isinstance(real, str) else set()
    )


def _problem(definition: JsonObject) -> str | None:
    """Return why no client of one of the eras could read the tool, or None."""
    for era, version in _CHECKED_AS.items():
        listing: dict[str, Any] = {"tools": [for_era(definition, era)], "resultType": "complete"}
        try:
            methods.serialize_server_result("tools/list", version, listing | {"ttlMs": 0, "cacheScope": "private"})
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            where = "/".join(str(step) for step in first["loc"] if not isinstance(step, int))
            return f"its definition is not valid MCP at {where}: {first['msg']}"
    return None
