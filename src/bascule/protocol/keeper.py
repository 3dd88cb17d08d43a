"""Keeps what is known of one MCP server: who it is, whether it is the expected one, which tools it has.

How requests travel is left to `link`, what a listing means to `mirror`; what is offered and called to `remote`.

1. Identity comes before anything else: a server that is not the expected one is asked nothing further.
2. What was fetched is kept through a loss, and dropped once it is another's or no longer this caller's.
3. One fetch at a time, shared by whoever waits; it goes on when they stop waiting.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from mcp import MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

from bascule.node.terms import JsonObject, JsonValue, Revision
from bascule.protocol.causes import Problem, not_modern, problem, unexpected
from bascule.protocol.expectation import Expectation
from bascule.protocol.link import RESERVED, VERSION, Link, LinkError, Request
from bascule.protocol.mirror import MAX_TOOLS, Mirror, read_tools, seconds

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

MAX_PAGES: Final = 200
"""Pages of one listing."""

SERVER_INFO: Final = RESERVED + "serverInfo"

_log: Final = logging.getLogger("bascule.protocol.keeper")


class Keeper:
    """What is known of the server behind one link. Lives on one event loop."""

    def __init__(self, link: Link, expectation: Expectation, *, place: str) -> None:
        """Prepare; nothing is sent before `start` or `fetch`. `place` is where the token comes from, in words."""
        self._link, self._expectation, self._place = link, expectation, place
        self._url = link.target.url
        self.mirror: Mirror | None = None
        self.identity: tuple[str, str] | None = None
        """Name and version, once verified."""
        self.problem: Problem | None = None
        """Why the server cannot be used, as far as is known; None while it can or before the first attempt."""
        self.doubted = False
        """Whether identity must be verified again before the next call."""
        self._doubts = 0
        self.revision = Revision(1)
        self._fetched_at, self._ttl = 0.0, DEFAULT_TTL
        self._changed, self._wake = asyncio.Event(), asyncio.Event()
        self._fetching: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Keeper of {self._url}, revision {self.revision}{', doubted' if self.doubted else ''}>"

    @property
    def usable(self) -> Mirror | None:
        """The catalogue of a server that is verified and not in doubt."""
        return None if self.doubted else self.mirror

    def start(self) -> None:
        """Fetch, and stay in touch from now on."""
        self._keeping = asyncio.create_task(self._keep())

    async def aclose(self) -> None:
        """End what was started."""
        tasks = [task for task in (self._keeping, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def doubt(self) -> None:
        """Verify again before the next call, and try to soon."""
        self.doubted = True
        self._doubts += 1
        self._wake.set()

    async def changes(self) -> AsyncIterator[Revision]:
        """Yield the newest revision each time the catalogue changed, came or went."""
        seen = self.revision
        while True:
            changed = self._changed
            if self.revision == seen:
                await changed.wait()
                continue
            seen = self.revision
            yield seen

    async def renew(self) -> bool:
        """Fetch again if the catalogue is not fresh; return whether it was."""
        if self._age() < STALE:
            return False
        await self.fetch(CALL_WAITS)
        return True

    def freshen(self) -> None:
        """Fetch behind, if the catalogue is older than its server says it may be."""
        if self._age() > self._ttl:
            self._start_fetching()

    def _start_fetching(self) -> "asyncio.Task[None]":
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch_now())
        return self._fetching

    async def fetch(self, seconds: float) -> None:
        """Wait for one fetch, shared with whoever waits already, at most so long; it goes on behind."""
        await asyncio.wait({self._start_fetching()}, timeout=seconds)

    async def _fetch_now(self) -> None:
        try:
            async with asyncio.timeout(FETCH):
                mirror = await self._undoubted()
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
            self.problem, self.doubted = None, False
            self._fetched_at = time.monotonic()
            self._set(mirror)

    def _fail(self, found: Problem) -> None:
        if found != self.problem:
            _log.warning("%s", found)
        self.problem = found
        if found.disowns:
            self.identity = None
            self._set(None)

    async def _undoubted(self) -> Mirror:
        """Return the catalogue of a server of which nothing strange was heard since it said who it is."""
        while True:
            doubts = self._doubts
            mirror = await self._verified()
            if doubts == self._doubts:
                return mirror

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
        self.identity = (str(name), str(version))
        return read_tools(await self._all_tools())

    async def _all_tools(self) -> list[JsonValue]:
        tools: list[JsonValue] = []
        cursors: set[str] = set()
        params: JsonObject = {}
        for _ in range(MAX_PAGES):
            page = await self._ask("tools/list", params)
            listed, cursor = page.get("tools"), page.get("nextCursor")
            tools.extend(listed if isinstance(listed, list) else ())
            self._ttl = _ttl(page.get("ttlMs"))
            # A server that ignores the cursor would give its first page for ever.
            if not isinstance(cursor, str) or cursor in cursors or len(tools) >= MAX_TOOLS:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        return tools

    async def _ask(self, method: str, params: JsonObject) -> JsonObject:
        return await self._link.send(Request(method, params, FETCH, {}))

    def _set(self, mirror: Mirror | None) -> None:
        before, self.mirror = self.mirror, mirror
        if before is mirror or (before is not None and mirror is not None and before.same_as(mirror)):
            return
        self.revision = Revision(self.revision + 1)
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    def _age(self) -> float:
        return time.monotonic() - self._fetched_at

    async def _keep(self) -> None:
        """Stay in touch: fetch, hear of changes, and come back after a loss, with growing pauses."""
        failures = 0
        while True:
            self._wake.clear()
            await self.fetch(FETCH)
            if self.problem is None and self.mirror is not None:
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
    """The server is not the expected one; the text says in what."""


def _ttl(milliseconds: JsonValue) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, (int, float)) or milliseconds <= 0:
        return DEFAULT_TTL
    return seconds(milliseconds, MAX_TTL) or MAX_TTL


def _as_words(error: MCPError) -> str:
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    if isinstance(supported, list):
        return f"it speaks {', '.join(str(version)[:32] for version in supported[:8]) or 'no revision'} only"
    return f"it answered {error.code}, {error.message[:200]!r}"
