"""An example plug-in: one operation that says how long the machine has been up.

Who may call it, and what is written down, is the controller's; a plug-in only describes and does.
"""

import time
from collections.abc import Sequence

from bascule.node.node import Back
from bascule.node.terms import Call, Completed, Effect, JsonValue, Operation, Outcome

_UPTIME = Operation(
    name="uptime.get",
    title="Uptime",
    description="How long this machine has been up, in seconds.",
    arguments={"type": "object", "properties": {}},
    effect=Effect.READ,
    result={"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]},
)


class Uptime:
    """A capability: category, operations, can_handle, execute, plan. The entry point calls it without arguments."""

    category = "example"

    def operations(self) -> Sequence[Operation]:
        """Return what this plug-in offers."""
        return (_UPTIME,)

    def can_handle(self, name: str) -> bool:
        """Whether `name` is ours."""
        return name == _UPTIME.name

    async def execute(self, call: Call, back: Back) -> Outcome:
        """Do it. Arguments are validated already; an exception would become `capability_failure`."""
        return Completed({"seconds": round(time.monotonic())})

    async def plan(self, call: Call) -> JsonValue:
        """Say what `execute` would do; reads have nothing to plan."""
        return {"read": "the monotonic clock"}
