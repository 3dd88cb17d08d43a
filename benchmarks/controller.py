"""The real controller with echo operations beside its own, for the load to call: `bench.echo`, `bench.echo1`, ...

Everything else is the product as shipped. Usage: controller.py CONFIG TOOLS; prints its URL's port on stdout.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from bascule import settings
from bascule.assembly import controller
from bascule.node.node import Back
from bascule.node.terms import Call, Completed, Effect, JsonValue, Operation, Outcome

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Echo:
    """Answers with the same text: what the bare server does, as a capability."""

    category = "bench"

    def __init__(self, count: int) -> None:
        names = ["bench.echo", *(f"bench.echo{number}" for number in range(1, count))]
        self._operations = [
            Operation(name=name, description="Answer with the same text.", arguments=SCHEMA, effect=Effect.READ)
            for name in names
        ]
        self._names = frozenset(names)

    def operations(self) -> Sequence[Operation]:
        return self._operations

    def can_handle(self, name: str) -> bool:
        return name in self._names

    async def execute(self, call: Call, back: Back) -> Outcome:
        return Completed(call.arguments["text"])

    async def plan(self, call: Call) -> JsonValue:
        return call.arguments


def announce(line: str) -> None:
    print(line.rpartition(":")[2].partition("/")[0], flush=True)


if __name__ == "__main__":
    loaded = settings.load(Path(sys.argv[1]))
    sys.exit(controller.serve(loaded, announce=announce, extra=[Echo(int(sys.argv[2]))]))
