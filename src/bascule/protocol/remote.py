"""RemoteNode: another MCP server as a node. Verified before anything is offered, each call one self-contained request.

How requests travel is left to `link`, what a listing means to `mirror`, failures in words to `causes`.

1. Who the server is comes first: name and version fit the expectation, or nothing is offered and nothing is called.
2. The catalogue is kept: listing answers at once from memory, and is renewed behind, on a change, and with age.
3. Arguments are checked against the mirrored schema; what does not fit is never sent.
4. A call carries its key, what is left of its time, and whom it is meant for.
5. An answer is never discarded because of who gave it; a stranger's answer makes the next call verify again first.
"""

import asyncio
import contextlib
import logging
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Final, Self

from mcp import MCPError
from mcp_types import HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION

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
from bascule.protocol.causes import Problem, errored, failed, not_modern, problem, unexpected
from bascule.protocol.expectation import EXPECT, Expectation
from bascule.protocol.link import LOG_LEVEL, RESERVED, SILENCE, VERSION, Link, LinkError, Request
from bascule.protocol.mirror import MAX_TOOLS, Mirror, Mirrored, read_tools, seconds
from bascule.protocol.relay import Relay

STATUS: Final = "bascule_status"
"""The one operation there is while there is no catalogue."""

FIRST_LIST: Final = 1.2
"""Seconds a listing waits for the first catalogue: OpenClaw gives up at 1.5 s."""

FETCH: Final = 20.0
"""Seconds for identity and all pages together."""

CALL_WAITS: Final = 10.0
"""Seconds a call waits for a catalogue that is missing or in doubt."""

STALE: Final = 5.0
"""Seconds after which a catalogue is renewed before a call is refused because of it."""

DEFAULT_TTL: Final = 30.0
"""Seconds a catalogue counts as fresh when its server does not say."""

MAX_TTL: Final = 300.0
"""Seconds after which a catalogue is renewed, whatever its server says."""

RETRY: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts to come back; the last repeats. A restarted controller is found within 8 s unasked."""

ANSWER_GRACE: Final = 5.0
"""Seconds beyond an operation's own time in which the controller's account of it may still arrive."""

MAX_PAGES: Final = 200
"""Pages of one listing."""

DEADLINE: Final = "bascule/deadlineMs"
KEY: Final = "bascule/idempotencyKey"
SERVER_INFO: Final = RESERVED + "serverInfo"

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
        self._url, self._place = target.url, token_place
        self._expectation, self._first_list, self._grace = expectation, first_list, answer_grace
        self._mirror: Mirror | None = None
        self._identity: tuple[str, str] | None = None
        self._problem: Problem | None = None
        self._fetched_at, self._ttl = 0.0, DEFAULT_TTL
        self._doubted = False
        self._revision = Revision(1)
        self._offer: Offer | None = None
        self._changed, self._wake = asyncio.Event(), asyncio.Event()
        self._fetching: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<RemoteNode {self._url}: {self._problem or 'as expected' if self._mirror else 'no catalogue'}>"

    async def __aenter__(self) -> Self:
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [task for task in (self._keeping, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.__aexit__(kind, error, trace)

    # -- Node --

    @property
    def problem(self) -> Problem | None:
        """Why the server cannot be used now, as far as is known; None while it can."""
        return self._problem

    @property
    def identity(self) -> tuple[str, str] | None:
        """Name and version of the server, once verified."""
        return self._identity

    async def verify(self) -> Problem | None:
        """Fetch identity and catalogue now; return why that did not work, or None."""
        await self._fetch(FETCH)
        return self._problem

    async def offered_to(self, caller: Caller) -> Offer:
        """Return the catalogue at once where there is one; without one, `bascule_status` alone. Never raises."""
        if self._mirror is None:
            await self._fetch(self._first_list)
        elif self._age() > self._ttl:
            self._start_fetching()
        if self._offer is None:
            self._offer = self._made_offer()
        return self._offer

    async def changes(self, caller: Caller) -> AsyncIterator[Revision]:
        """Yield the newest revision each time the offer changed, the return of a lost server included."""
        seen = self._revision
        while True:
            changed = self._changed
            if self._revision == seen:
                await changed.wait()
                continue
            seen = self._revision
            yield seen

    async def invoke(self, invocation: Invocation, back: Back) -> Answer:
        """Call a tool of the server; every failure is a result in words."""
        if invocation.kind is not Kind.CALL:
            return Fault(-32601, "Method not found")
        found = await self._find(invocation.name)
        if found is None and invocation.name == STATUS:
            return Completed(self._status())
        if isinstance(found, Refused):
            return found
        if found is None:
            return unknown(invocation.name)
        if (refusal := found.refusal(invocation.arguments)) is not None:  # 3
            renewed = await self._renewed(found, invocation)
            if renewed is None:
                return refusal
            found = renewed
        return await self._call(found, invocation, back)

    # -- one call --

    async def _call(self, tool: Mirrored, invocation: Invocation, back: Back) -> Answer:
        effect = tool.operation.effect
        async with Relay(back, self._link.new_progress_token(), invocation.params) as relay:
            for attempt in (1, 2):
                request = self._request(tool, invocation, relay)
                try:
                    result = await self._link.send(request)
                except LinkError as error:
                    return self._unanswered(error, effect)
                except MCPError as error:
                    # Our header map is older than the server's schema: it refused before dispatch, so once more is safe.
                    if error.code == HEADER_MISMATCH and attempt == 1:
                        await self._fetch(CALL_WAITS)
                        tool = (self._mirror and self._mirror.find(tool.name)) or tool
                        continue
                    return errored(error, effect, url=self._url)
                self._look_at(result)  # 5
                return Passed(result)
        raise AssertionError("a second attempt always answers")

    def _request(self, tool: Mirrored, invocation: Invocation, relay: Relay) -> Request:
        sent = invocation.params.payload if invocation.params is not None else {}
        params: JsonObject = {**sent, "name": tool.name, "arguments": invocation.arguments}
        params["_meta"] = meta = _foreign(sent.get("_meta"))
        left = tool.operation.timeout
        if invocation.remaining is not None:
            left = min(left, invocation.remaining)
        meta[DEADLINE] = max(1, round(left * 1000))  # 4
        meta[EXPECT] = self._expectation.texts
        if tool.operation.effect is not Effect.READ:
            meta[KEY] = invocation.key or uuid.uuid4().hex
        meta.update(relay.meta)
        headers = tool.header_fields(invocation.arguments)
        if invocation.trace:
            headers["x-request-id"] = invocation.trace
        return Request("tools/call", params, left + self._grace, headers, relay.notice)

    def _unanswered(self, error: LinkError, effect: Effect) -> Answer:
        found = problem(error.failure, url=self._url, place=self._place)
        _log.warning("a call got no answer: %s", error.failure.kind)
        self._doubted = True
        self._wake.set()
        return failed(error.failure, found, effect)

    def _look_at(self, result: JsonObject) -> None:
        meta = result.get("_meta")
        info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
        if info is None or self._identity is None:
            return
        if not isinstance(info, dict) or (info.get("name"), info.get("version")) != self._identity:
            _log.warning("an answer came from another server or version than was verified; it is verified again")
            self._doubted = True
            self._wake.set()

    # -- finding --

    async def _find(self, name: str) -> Mirrored | Refused | None:
        """Return the tool, or why there is none to be had; None when the server has no such tool."""
        if self._mirror is None or self._doubted:
            await self._fetch(CALL_WAITS)
        if self._mirror is not None and not self._doubted and self._mirror.find(name) is None:
            await self._renew()
        if self._mirror is None or self._doubted:
            if name == STATUS:
                return None
            return self._refused()
        return self._mirror.find(name)

    async def _renewed(self, tool: Mirrored, invocation: Invocation) -> Mirrored | None:
        """Renew an old catalogue before refusing by it; return the tool if the arguments fit now."""
        if not await self._renew() or self._mirror is None:
            return None
        fresh = self._mirror.find(tool.name)
        return fresh if fresh is not None and fresh.refusal(invocation.arguments) is None else None

    async def _renew(self) -> bool:
        if self._age() < STALE:
            return False
        await self._fetch(CALL_WAITS)
        return True

    def _refused(self) -> Refused:
        found = self._problem or Problem(
            f"The controller at {self._url} has not answered yet", "Call again in a moment"
        )
        return Refused(found.category, f"{found.cause}; nothing was executed. {found.remedy}.", "no verified server")

    # -- what is offered --

    def _made_offer(self) -> Offer:
        if self._mirror is None:
            return Offer(self._revision, operations=(_STATUS_OPERATION,))
        operations = tuple(tool.operation for tool in self._mirror.tools.values())
        return Offer(self._revision, operations=operations, set_aside=self._mirror.set_aside)

    def _status(self) -> JsonObject:
        if self._mirror is not None and not self._doubted:
            return {"usable": True, "controller": self._url, "tools": len(self._mirror.tools)}
        found = self._problem or Problem("It has not answered yet", "Call again in a moment")
        return {"usable": False, "controller": self._url, "cause": found.cause, "remedy": found.remedy}

    def _set(self, mirror: Mirror | None) -> None:
        before, self._mirror = self._mirror, mirror
        if before is mirror or (before is not None and mirror is not None and before.same_as(mirror)):
            return
        self._revision = Revision(self._revision + 1)
        self._offer = None
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    def _age(self) -> float:
        return time.monotonic() - self._fetched_at

    # -- fetching --

    def _start_fetching(self) -> "asyncio.Task[None]":
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch_now())
        return self._fetching

    async def _fetch(self, seconds: float) -> None:
        """Wait for one fetch, shared with whoever waits already, at most so long; it goes on behind."""
        await asyncio.wait({self._start_fetching()}, timeout=seconds)

    async def _fetch_now(self) -> None:
        try:
            async with asyncio.timeout(FETCH):
                mirror = await self._verified()
        except LinkError as error:
            self._fail(problem(error.failure, url=self._url, place=self._place))
        except MCPError as error:
            self._fail(not_modern(_as_words(error), url=self._url))
        except _UnexpectedError as error:
            self._fail(unexpected(str(error), url=self._url))
        except TimeoutError:
            self._fail(
                Problem(f"The controller at {self._url} did not list its tools within {FETCH:g} s", "See its log")
            )
        else:
            self._problem, self._doubted = None, False
            self._fetched_at = time.monotonic()
            self._set(mirror)

    def _fail(self, found: Problem) -> None:
        if found != self._problem:
            _log.warning("%s", found)
        self._problem = found
        if found.disowns:
            self._identity = None
            self._set(None)

    async def _verified(self) -> Mirror:
        """Return the catalogue of the expected server.

        Raises:
            LinkError, MCPError: see `link`.
        """
        discovered = await self._ask("server/discover", {})
        supported = discovered.get("supportedVersions")
        if not isinstance(supported, list) or VERSION not in supported:
            raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, f"it does not list {VERSION} as supported")
        meta = discovered.get("_meta")
        info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
        name, version = (info.get("name"), info.get("version")) if isinstance(info, dict) else (None, None)
        verdict = self._expectation.check(name, version)  # 1
        if not verdict.fits:
            raise _UnexpectedError(verdict.reason)
        self._identity = (str(name), str(version))
        return read_tools(await self._all_tools())

    async def _all_tools(self) -> list[JsonValue]:
        tools: list[JsonValue] = []
        cursors: set[str] = set()
        params: JsonObject = {}
        for _ in range(MAX_PAGES):
            page = await self._ask("tools/list", params)
            listed, cursor = page.get("tools"), page.get("nextCursor")
            tools.extend(listed if isinstance(listed, list) else ())
            self._ttl = seconds(page.get("ttlMs"), MAX_TTL) or DEFAULT_TTL
            # A server that ignores the cursor would give its first page for ever.
            if not isinstance(cursor, str) or cursor in cursors or len(tools) >= MAX_TOOLS:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        return tools

    async def _ask(self, method: str, params: JsonObject) -> JsonObject:
        return await self._link.send(Request(method, params, FETCH, {}))

    # -- keeping it --

    async def _keep(self) -> None:
        """Stay in touch: fetch, hear of changes, and come back after a loss, with growing pauses."""
        failures = 0
        while True:
            self._wake.clear()
            await self._fetch(FETCH)
            if self._problem is None and self._mirror is not None:
                failures = 0
                await self._listen()
                continue
            pause = RETRY[min(failures, len(RETRY) - 1)]
            failures += 1
            await self._woken(pause)
            # One wake-up may not turn a dead controller into a busy loop.
            await asyncio.sleep(RETRY[0])

    async def _listen(self) -> None:
        """Hold a standing stream until something changed or it broke."""
        request = Request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, None, {}, self._heard)
        started = time.monotonic()
        stream = asyncio.create_task(self._link.send(request))
        woken = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait({stream, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            stream.cancel()
            ended = await asyncio.gather(stream, return_exceptions=True)
        if self._wake.is_set():
            return
        refused = isinstance(ended[0], MCPError) or (isinstance(ended[0], LinkError) and not ended[0].failure.sent)
        if refused or time.monotonic() - started < RETRY[0]:
            await self._woken(DEFAULT_TTL if refused else RETRY[1])

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self._wake.set()
        elif method == "notifications/subscriptions/acknowledged":
            # What changed between the last fetch and this moment is announced to nobody.
            self._start_fetching()

    async def _woken(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()


class _UnexpectedError(Exception):
    """The server is not the expected one."""


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


def _as_words(error: MCPError) -> str:
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    if isinstance(supported, list):
        return f"it speaks {', '.join(str(version)[:32] for version in supported[:8]) or 'no revision'} only"
    return f"it answered {error.code}, {error.message[:200]!r}"
