"""A provider of operations: what this machine can do, behind one interface.

Seeing, reading, deciding, recording and limits are left to the node; a capability is entered only by an allowed call.
"""

from collections.abc import Sequence
from typing import Protocol

from bascule.node.node import Back
from bascule.node.terms import Call, JsonValue, Operation, Outcome


class Capability(Protocol):
    """Anything that offers operations. Implementations live in `capabilities`, in plug-ins and in `protocol.remote`."""

    @property
    def category(self) -> str:
        """One word for people, such as `device` or `commands`."""
        ...

    def operations(self) -> Sequence[Operation]:
        """Return the operations, in the order they are to be listed. Read once, when the capability is registered."""
        ...

    def can_handle(self, name: str) -> bool:
        """Whether `name`, exactly as registered, is one of this capability's."""
        ...

    async def execute(self, call: Call, back: Back) -> Outcome:
        """Do what `call` says. The effect begins here.

        Return `Refused` only when nothing was done. When cancelled, end every piece of the work (processes included)
        before letting the cancellation out; the node says why it stopped. An exception is a fault of the capability:
        its text never reaches a peer.
        """
        ...

    async def plan(self, call: Call) -> JsonValue:
        """Return exactly what `execute` would do, without doing any of it."""
        ...
