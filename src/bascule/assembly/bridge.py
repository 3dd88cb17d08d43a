"""A connection becomes a bridge, or one client of our own.

What each part does is its own; the controller at the other end is put together in `controller`.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final

from bascule import __version__
from bascule.assembly.loop import run
from bascule.connection import Called, Connection, Identity
from bascule.credentials import CredentialError, token_source
from bascule.identity import Caller
from bascule.node.terms import Category, Cause, Failed, Fault, Refused
from bascule.platform.parent import parent_gone
from bascule.protocol import translate
from bascule.protocol.addresses import UrlError, read_url
from bascule.protocol.catalogue import project
from bascule.protocol.expectation import ExpectationError
from bascule.protocol.expectation import parse as parse_expectation
from bascule.protocol.remote import RemoteNode
from bascule.protocol.server import NodeServer
from bascule.protocol.stdio import StdioDeliveries, serve_stdio

CLIENT: Final = Caller("client")
"""Whoever is at the other end of this process's own pipe: the controller knows the caller by its token."""

INSTRUCTIONS: Final = (
    "Operations of another machine, as its owner allows them. Operations that change something need `confirm: true`; "
    "`dry_run: true` shows what they would do."
)


class ConnectionRefusedByUsError(Exception):
    """A connection that is not even tried: its address or expectation is unusable, or the token is missing."""


class ControllerError(Exception):
    """The controller cannot be used: hop, cause and remedy in words."""


def _remote(connection: Connection) -> RemoteNode:
    try:
        source = token_source(
            None if connection.token_file else connection.token_env, connection.token_file, os.environ
        )
        return RemoteNode(
            read_url(connection.url),
            token=source,
            token_place=source.place,
            expectation=parse_expectation(connection.expect),
        )
    except (UrlError, ExpectationError, CredentialError) as error:
        raise ConnectionRefusedByUsError(str(error)) from None


def bridge(connection: Connection) -> int:
    """Serve one MCP client on stdin and stdout until it leaves; return the exit code.

    Raises:
        ConnectionRefusedByUsError: an option is unusable; nothing was started.
    """
    return run(_bridge(connection))


async def _bridge(connection: Connection) -> int:
    deliveries = StdioDeliveries()
    async with _remote(connection) as node:
        server = NodeServer(
            node,
            name="bascule-bridge",
            version=__version__,
            instructions=INSTRUCTIONS,
            caller_of=lambda _ctx: CLIENT,
            deliveries=deliveries,
            if_dropped=Cause.CANCELLED,
            legacy_fallback="offer" if connection.offer_fallback else "refuse",
            watched_as=CLIENT,
        )
        return await serve_stdio(server, deliveries=deliveries, parent_gone=parent_gone)


@dataclass(frozen=True, slots=True)
class Session:
    """A client of our own: what `bascule tools`, `call`, `connect` and `doctor` use."""

    node: RemoteNode

    async def identity(self) -> Identity:
        """Return who answered.

        Raises:
            ControllerError: nobody, or another one than expected.
        """
        await self._verified()
        name, version = self.node.identity or ("", "")
        return Identity(name, version)

    async def tools(self) -> list[dict[str, Any]]:
        """Return the tool definitions offered to this caller.

        Raises:
            ControllerError: see `identity`.
        """
        await self._verified()
        offer = await self.node.offered_to(CLIENT)
        return [translate.tool(operation) for operation in offer.operations]

    async def call(self, name: str, arguments: dict[str, Any], *, patience: float | None = None) -> Called:
        """Call an operation by either spelling of its name; failures are results; `patience` in seconds."""
        catalogue = project(await self.node.offered_to(CLIENT))
        params = {"name": name, "arguments": arguments}
        asked = translate.invocation(
            params, name=catalogue.operation_of(name), caller=CLIENT, trace="", if_dropped=Cause.CANCELLED
        )
        if isinstance(asked, Refused):
            return Called(translate.result(asked, operation_id="", era=translate.Era.MODERN))
        answer = await self.node.invoke(replace(asked, remaining=patience), _Silent())
        if isinstance(answer, Fault):
            answer = Failed(Category.OTHER, answer.message)
        return Called(translate.result(answer, operation_id=asked.id, era=translate.Era.MODERN))

    async def _verified(self) -> None:
        problem = await self.node.verify()
        if problem is not None:
            raise ControllerError(str(problem))


class _Silent:
    """A Back for callers that only want the answer."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        return

    async def log(self, level: str, data: Any) -> None:
        return


@contextlib.asynccontextmanager
async def connect(connection: Connection) -> AsyncIterator[Session]:
    """Open a session; nothing is sent before it is used.

    Raises:
        ConnectionRefusedByUsError: an option is unusable.
    """
    async with _remote(connection) as node:
        yield Session(node)
