"""A RemoteNode to an upstream of the tests, and the questions they ask it; patience is bounded, pauses there are none.

What the upstream says is `upstream`'s.
"""

import asyncio
from typing import Any

from bascule.node.terms import Answer
from bascule.protocol.addresses import read_url
from bascule.protocol.expectation import parse
from bascule.protocol.remote import RemoteNode
from kit.doubles import OWNER, KeptBack, invocation
from kit.upstream import Upstream

PATIENCE = 20.0


def remote(
    where: Upstream | str, *, token: Any = "good", expect: tuple[str, ...] = ("up-box@1.0.0",), **more: Any
) -> RemoteNode:
    """A node for `where`; `token` is one, or gives one."""
    url = where if isinstance(where, str) else where.url
    give = token if callable(token) else lambda: token
    return RemoteNode(read_url(url), token=give, expectation=parse(expect), **more)


async def call(node: RemoteNode, name: str, arguments: Any = None, **more: Any) -> Answer:
    """Call a tool."""
    async with asyncio.timeout(PATIENCE):
        return await node.invoke(invocation(name, arguments or {}, **more), KeptBack())


async def names(node: RemoteNode) -> list[str]:
    """What is offered."""
    return [operation.name for operation in (await node.offered_to(OWNER)).operations]
