"""The live registry: which operations exist now, in which order, and when that changed.

Who may see them is left to `policy`; a capability can come and go while the node serves.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from bascule.node.capability import Capability
from bascule.node.controls import with_controls
from bascule.node.errors import DuplicateOperationError, InvalidOperationError
from bascule.node.schema import Schema
from bascule.node.terms import Operation, Revision

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
"""Words joined by dots; no spaces, nothing that a policy entry or a client could read in two ways."""

MAX_NAME: Final = 64
"""Characters of a name: what the strictest client shows with a server's name in front is less, none shows more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered operation, with what is worked out once."""

    capability: Capability
    operation: Operation
    offered: Operation
    """The same with its control arguments in the schema: what callers see."""
    schema: Schema


class Registry:
    """Every operation of this node. Changed and read on the event loop only."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._revision = Revision(1)
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Registry of {len(self._entries)} operations at revision {self._revision}>"

    @property
    def revision(self) -> Revision:
        """The revision of everything that shapes an offer."""
        return self._revision

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the order they were added."""
        return tuple(self._entries.values())

    def find(self, name: str) -> Entry | None:
        """Return the entry registered as exactly `name`, or None."""
        return self._entries.get(name)

    def add(self, capability: Capability) -> None:
        """Add all operations of `capability`, or none.

        Raises:
            InvalidOperationError: a name, schema or limit is unusable.
            DuplicateOperationError: a name is taken.
        """
        fresh: dict[str, Entry] = {}
        for operation in capability.operations():
            if operation.name in self._entries or operation.name in fresh:
                raise DuplicateOperationError(f"{operation.name} is offered twice; names are unique on a controller")
            fresh[operation.name] = _entry(capability, operation)
        self._entries.update(fresh)
        self.touch()

    def remove(self, capability: Capability) -> None:
        """Remove all operations of `capability`; running work goes on."""
        kept = {name: entry for name, entry in self._entries.items() if entry.capability is not capability}
        if len(kept) != len(self._entries):
            self._entries = kept
            self.touch()

    def touch(self) -> None:
        """Say that offers may look different now, as after new rules."""
        self._revision = Revision(self._revision + 1)
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    async def changes(self) -> AsyncIterator[Revision]:
        """Yield the newest revision each time there is one; several changes while nobody looked are one."""
        seen = self._revision
        while True:
            changed = self._changed
            if self._revision == seen:
                await changed.wait()
                continue
            seen = self._revision
            yield seen


def _entry(capability: Capability, operation: Operation) -> Entry:
    if len(operation.name) > MAX_NAME or not NAME.fullmatch(operation.name):
        raise InvalidOperationError(
            f"{operation.name[:MAX_NAME]!r} cannot name an operation: words of letters, digits, _ and - joined by "
            f"dots, at most {MAX_NAME} characters"
        )
    if not operation.description.strip():
        raise InvalidOperationError(f"{operation.name} has no description; an agent chooses by it")
    if not 0 < operation.timeout < float("inf") or operation.output_cap < 1:
        raise InvalidOperationError(f"{operation.name}: timeout and output cap must be positive")
    offered = replace(operation, arguments=with_controls(operation))
    try:
        if operation.result is not None:
            Schema(operation.result)
        return Entry(capability, operation, offered, Schema(offered.arguments))
    except InvalidOperationError as error:
        raise InvalidOperationError(f"{operation.name}: {error}", detail=error.detail) from None
