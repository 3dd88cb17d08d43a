"""RemoteNode: another MCP server as a node. Each call is one self-contained request to a verified server.

How requests travel is left to `link`, who the server is and what it has to `keeper`, failures in words to `causes`.

1. Without a verified server nothing is offered but `bascule_status`, and nothing is called.
2. A listing is answered at once from what is kept; it is renewed behind.
3. Arguments are checked against the mirrored schema; what does not fit is never sent.
4. A call carries its key, what is left of its time, and whom it is meant for.
5. An answer is never discarded because of who gave it; a stranger's answer makes the next call verify again first.
"""

import logging
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Final, Self

from mcp import MCPError
from mcp_types import HEADER_MISMATCH, METHOD_NOT_FOUND

import bascule
from bascule.identity import Caller
from bascule.node.local import unknown
from bascule.node.node import Back
from bascule.node.terms import (
    Answer,
    Completed,
    Effect,
    Fault,
    Invocation,
    JsonObject,
    JsonValue,
    Kind,
    Offer,
    Operation,
    Passed,
    Refused,
    Revision,
)
from bascule.protocol.addresses import CheckedBackend, Target
from bascule.protocol.causes import Problem, errored, failed, problem
from bascule.protocol.expectation import Expectation
from bascule.protocol.keeper import CALL_WAITS, FETCH, SERVER_INFO, Keeper
from bascule.protocol.link import LOG_LEVEL, RESERVED, SILENCE, Link, LinkError, Request
from bascule.protocol.mirror import Mirrored
from bascule.protocol.relay import Relay
from bascule.protocol.translate import DEADLINE, KEY

STATUS: Final = "bascule_status"
"""The one operation there is while there is no catalogue."""

FIRST_LIST: Final = 1.2
"""Seconds a listing waits for the first catalogue: OpenClaw gives up at 1.5 s."""

ANSWER_GRACE: Final = 5.0
"""Seconds beyond an operation's own time in which the controller's account of it may still arrive."""

EXPECT: Final = "bascule/expect"
"""`_meta` of a call: whom it is meant for, so that the wrong server can refuse it before an effect."""

_log: Final = logging.getLogger("bascule.protocol.remote")


class RemoteNode:
    """A node elsewhere. Enter it in the loop it serves; one per server and token, whoever calls."""

    def __init__(
        self,
        target: Target,
        *,
        token: Callable[[], str],
        expectation: Expectation,
        token_place: str = "the configured place",  # noqa: S107 - words about a place, no token
        client: tuple[str, str] = ("bascule-bridge", bascule.__version__),
        backend: CheckedBackend | None = None,
        tls: ssl.SSLContext | None = None,
        silence: float = SILENCE,
        first_list: float = FIRST_LIST,
        answer_grace: float = ANSWER_GRACE,
    ) -> None:
        """Prepare; nothing is sent before it is entered.

        Args:
            target: where the server is.
            token: gives the bearer anew for each request; raises `CredentialError`.
            expectation: whom to meet there.
            token_place: where the token comes from, for words.
            client: name and version this side calls itself.
            backend: opens connections; a checked one of its own where None.
            tls: verifies certificates; the system's trust where None.
            silence: seconds without a byte that end an exchange.
            first_list: seconds a listing waits while nothing was ever fetched.
            answer_grace: seconds a call waits beyond the time its operation has.
        """
        self._link = Link(target, token, client=client, backend=backend, tls=tls, silence=silence)
        self._keeper = Keeper(self._link, expectation, place=token_place)
        self._url, self._place = target.url, token_place
        self._expectation, self._first_list, self._grace = expectation, first_list, answer_grace
        self._offer: Offer | None = None

    def __repr__(self) -> str:
        return f"<RemoteNode {self._url}: {self._keeper!r}>"

    async def __aenter__(self) -> Self:
        self._keeper.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._keeper.aclose()
        await self._link.__aexit__(kind, error, trace)

    @property
    def problem(self) -> Problem | None:
        """Why the server cannot be used now, as far as is known; None while it can."""
        return self._keeper.problem

    @property
    def identity(self) -> tuple[str, str] | None:
        """Name and version of the server, once verified."""
        return self._keeper.identity

    async def verify(self) -> Problem | None:
        """Fetch identity and catalogue now; return why that did not work, or None."""
        await self._keeper.fetch(FETCH)
        return self._keeper.problem

    # -- Node --

    async def offered_to(self, caller: Caller) -> Offer:
        """Return the catalogue at once where there is one; without one, `bascule_status` alone. Never raises."""
        if self._keeper.mirror is None:
            await self._keeper.fetch(self._first_list)
        else:
            self._keeper.freshen()  # 2
        if self._offer is None or self._offer.revision != self._keeper.revision:
            self._offer = self._made_offer()
        return self._offer

    async def changes(self, caller: Caller) -> AsyncIterator[Revision]:
        """Yield the newest revision each time the offer changed, the return of a lost server included."""
        async for revision in self._keeper.changes():
            yield revision

    async def invoke(self, invocation: Invocation, back: Back) -> Answer:
        """Call a tool of the server; every failure is a result in words."""
        if invocation.kind is not Kind.CALL:
            return Fault(METHOD_NOT_FOUND, "Method not found")
        found = await self._find(invocation.name)  # 1
        if found is None:
            return Completed(self._status()) if invocation.name == STATUS else self._unknown(invocation.name)
        refusal = found.refusal(invocation.arguments)  # 3
        if refusal is not None and await self._keeper.renew():
            found = self._known(invocation.name) or found
            refusal = found.refusal(invocation.arguments)
        return refusal or await self._call(found, invocation, back)

    # -- finding --

    def _known(self, name: str) -> Mirrored | None:
        mirror = self._keeper.usable
        return None if mirror is None else mirror.find(name)

    async def _find(self, name: str) -> Mirrored | None:
        """Return the tool; ask the server again first where what is known of it is missing, doubted or old."""
        if self._keeper.usable is None:
            await self._keeper.fetch(CALL_WAITS)
        if (found := self._known(name)) is None and self._keeper.usable is not None:
            await self._keeper.renew()
            found = self._known(name)
        return found

    def _unknown(self, name: str) -> Refused:
        if self._keeper.usable is not None:
            return unknown(name)
        found = self._reason()
        return Refused(found.category, f"{found.cause}; nothing was executed. {found.remedy}.", "no verified server")

    def _reason(self) -> Problem:
        return self._keeper.problem or Problem(
            f"The controller at {self._url} has not answered yet", "Call again in a moment"
        )

    # -- what is offered --

    def _made_offer(self) -> Offer:
        mirror = self._keeper.mirror
        if mirror is None:
            return Offer(self._keeper.revision, operations=(_STATUS_OPERATION,))
        operations = tuple(tool.operation for tool in mirror.tools.values())
        return Offer(self._keeper.revision, operations=operations, set_aside=mirror.set_aside)

    def _status(self) -> JsonObject:
        if (mirror := self._keeper.usable) is not None:
            return {"usable": True, "controller": self._url, "tools": len(mirror.tools)}
        found = self._reason()
        return {"usable": False, "controller": self._url, "cause": found.cause, "remedy": found.remedy}

    # -- one call --

    async def _call(self, tool: Mirrored, invocation: Invocation, back: Back) -> Answer:
        effect = tool.operation.effect
        try:
            async with Relay(back, self._link.new_progress_token(), invocation.params) as relay:
                result = await self._sent(tool, invocation, relay)
        except LinkError as error:
            _log.warning("a call of %s got no answer: %s", tool.name, error.failure.kind)
            self._keeper.doubt()
            return failed(error.failure, problem(error.failure, url=self._url, place=self._place), effect)
        except MCPError as error:
            return errored(error, effect, url=self._url)
        self._look_at(result)
        return Passed(result)

    async def _sent(self, tool: Mirrored, invocation: Invocation, relay: Relay) -> JsonObject:
        request = self._request(tool, invocation, relay)
        try:
            return await self._link.send(request)
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        # Our map of mirrored headers is older than the server's schema. It refused before dispatch: once more is safe.
        await self._keeper.fetch(CALL_WAITS)
        return await self._link.send(self._request(self._known(tool.name) or tool, invocation, relay))

    def _request(self, tool: Mirrored, invocation: Invocation, relay: Relay) -> Request:
        sent = invocation.params.payload if invocation.params is not None else {}
        left = tool.operation.timeout
        if invocation.remaining is not None:
            left = min(left, invocation.remaining)
        meta = _foreign(sent.get("_meta")) | relay.meta
        meta[DEADLINE] = max(1, round(left * 1000))  # 4
        meta[EXPECT] = self._expectation.texts
        if tool.operation.effect is not Effect.READ:
            meta[KEY] = invocation.key or uuid.uuid4().hex
        params: JsonObject = {**sent, "name": tool.name, "arguments": invocation.arguments, "_meta": meta}
        headers = tool.header_fields(invocation.arguments)
        if invocation.trace:
            headers["x-request-id"] = invocation.trace
        return Request("tools/call", params, left + self._grace, headers, relay.notice)

    def _look_at(self, result: JsonObject) -> None:  # 5
        meta = result.get("_meta")
        info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
        identity = self._keeper.identity
        if info is None or identity is None:
            return
        if not isinstance(info, dict) or (info.get("name"), info.get("version")) != identity:
            _log.warning("an answer came from another server or version than was verified; it is verified again")
            self._keeper.doubt()


_STATUS_OPERATION: Final = Operation(
    name=STATUS,
    description=(
        "Say why the controller's tools are missing and how to mend it. They appear here as soon as the controller "
        "can be used."
    ),
    arguments={"type": "object", "properties": {}, "additionalProperties": False},
    effect=Effect.READ,
    title="Status of the bridge",
)


def _foreign(meta: JsonValue) -> JsonObject:
    """Return a client's `_meta` as it may travel on: never the protocol's own keys, nor its progress token."""
    if not isinstance(meta, dict):
        return {}
    return {
        name: value
        for name, value in meta.items()
        if name == LOG_LEVEL or not (name.startswith(RESERVED) or name == "progressToken")
    }
