"""Everything an agent can reach is a Node: the whole surface, in one place.

What a node does inside is left to its implementations: `local.LocalNode` on this machine, `protocol.remote.RemoteNode` elsewhere.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from bascule.identity import Caller
from bascule.node.terms import Answer, Invocation, JsonValue, Offer, Revision


class Back(Protocol):
    """What may be said while an invocation runs: ordered, and over when `invoke` returns. Nothing else calls back."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None: ...

    async def log(self, level: str, data: JsonValue) -> None: ...


class Node(Protocol):
    """What an agent can reach. The protocol server projects any node to MCP."""

    async def offered_to(self, caller: Caller) -> Offer:
        """Return what `caller` may see, with its revision. It never raises: without a catalogue the offer is small."""
        ...

    def changes(self, caller: Caller) -> AsyncIterator[Revision]:
        """Yield one revision each time the offer to `caller` changed."""
        ...

    async def invoke(self, invocation: Invocation, back: Back) -> Answer:
        """Make something happen: the only way to do so.

        Cancelling this coroutine detaches the caller; `invocation.if_dropped` says what that means for the work.
        """
        ...
