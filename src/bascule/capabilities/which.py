"""`system.which`: where programs are, on the path that commands get.

It finds and says; running them is left to declared commands.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bascule.node.node import Back
from bascule.node.terms import Call, Completed, Effect, JsonObject, JsonValue, Operation, Outcome

MAX_BINS: Final = 64
"""Programs asked for at once."""

_WHICH: Final = Operation(
    name="system.which",
    title="Find programs",
    description="Where programs are on this machine's PATH: for each name its absolute path, and which are missing.",
    arguments={
        "type": "object",
        "properties": {
            "bins": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^/\\\x00]+$"},
                "minItems": 1,
                "maxItems": MAX_BINS,
                "description": "Bare names of programs, without a path",
            }
        },
        "required": ["bins"],
    },
    effect=Effect.READ,
    result={
        "type": "object",
        "properties": {
            "bins": {"type": "object", "additionalProperties": {"type": "string"}},
            "missing": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["bins", "missing"],
    },
)


class Which:
    """One read of the path, as commands are looked up."""

    category = "system"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = environ.get("PATH", os.defpath)

    def operations(self) -> Sequence[Operation]:
        """Return the one."""
        return (_WHICH,)

    def can_handle(self, name: str) -> bool:
        """Whether `name` is it."""
        return name == _WHICH.name

    async def execute(self, call: Call, back: Back) -> Outcome:
        """Look, in a thread: a path may lead to a network mount."""
        return Completed(await asyncio.to_thread(self._find, call.arguments["bins"]))

    async def plan(self, call: Call) -> JsonValue:
        """Return what is looked for."""
        return {"find": call.arguments["bins"]}

    def _find(self, names: Sequence[str]) -> JsonObject:
        found = {name: shutil.which(name, path=self._path) for name in names}
        return {
            "bins": {name: str(Path(path).absolute()) for name, path in found.items() if path},
            "missing": [name for name, path in found.items() if not path],
        }
