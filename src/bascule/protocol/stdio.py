"""A server on stdin and stdout: our own framing in front of the SDK's dual-era loop, and an orderly end.

What requests mean is the server's. The SDK's own stdio leaves malformed lines unanswered and loses answers at the end
of input (decision 5).

How it ends:

1. End of input: what is in flight is answered first, within a grace; then it ends.
2. SIGTERM or SIGINT: no more input, a shorter grace. A second signal ends at once.
3. A dead parent, or nobody reading: at once; there is no one to answer.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from bascule.node.terms import JsonObject
from bascule.protocol import framing, pipes
from bascule.protocol.framing import Batch, Malformed, Notification, Reply, Request, TooLong
from bascule.protocol.ledger import MAX_IN_FLIGHT, Flight, Gathering, Ledger
from bascule.protocol.outlet import MAX_ANSWER, MAX_BACKLOG, Outlet, StdioDeliveries
from bascule.protocol.server import NodeServer

__all__ = ["END_GRACE", "SIGNAL_GRACE", "Limits", "StdioDeliveries", "serve_stdio"]

END_GRACE: Final = 5.0
"""Seconds that answers in flight get after the end of input."""

SIGNAL_GRACE: Final = 2.0
"""Seconds that they get after a first signal: common clients kill 2 s after it."""

LAST_WORDS: Final = 0.5
"""Seconds for what is left to say after the grace: errors for what stayed unanswered, into a pipe that may be full."""

BATCHES: Final = "2025-03-26"
"""The one revision that has batches."""

_log: Final = logging.getLogger("bascule.protocol.stdio")

Inward: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    line: int = framing.MAX_LINE
    answer: int = MAX_ANSWER
    end_grace: float = END_GRACE
    signal_grace: float = SIGNAL_GRACE


async def serve_stdio(
    server: NodeServer,
    *,
    deliveries: StdioDeliveries,
    parent_gone: Callable[[], Awaitable[None]] | None = None,
    stdin: int = 0,
    stdout: int = 1,
    limits: Limits | None = None,
    handle_signals: bool = True,
) -> int:
    """Serve one client until it leaves; return the exit code: 0, or 1 when the server broke and not the client left."""
    reading, writing = pipes.take(stdin, stdout)
    with reading, writing:
        connection = _Connection(deliveries, limits or Limits())
        await connection.attach(reading, writing)
        try:
            sound = await connection.serve(server, parent_gone, handle_signals=handle_signals)
        finally:
            connection.close()
    return 0 if sound else 1


class _Connection:
    """One client's pipe: lines in, the SDK's messages through, lines out."""

    def __init__(self, deliveries: StdioDeliveries, limits: Limits) -> None:
        self._deliveries, self._limits = deliveries, limits
        self._lines, self._ledger = framing.Lines(limits.line), Ledger()
        self._incoming = pipes.Incoming(self._heard)
        self._outgoing = pipes.Outgoing()
        self._outlet = Outlet(self._outgoing, deliveries, most=limits.answer, moved=self._balance)
        self._version = ""
        self._to_server: Inward
        self._to_server, self._server_reads = anyio.create_memory_object_stream(float("inf"))
        self._room, self._changed = asyncio.Event(), asyncio.Event()
        self._room.set()
        self._listening = True

    async def attach(self, reading: Any, writing: Any) -> None:
        await self._outgoing.attach(writing)
        await self._incoming.attach(reading)

    def close(self) -> None:
        self._incoming.close()
        self._outgoing.close()

    async def serve(
        self, server: NodeServer, parent_gone: Callable[[], Awaitable[None]] | None, *, handle_signals: bool
    ) -> bool:
        """Serve until the end; return whether the server was sound."""
        server_writes, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        async with server.lifespan(server) as state:
            loop = asyncio.ensure_future(
                serve_dual_era_loop(server, self._server_reads, server_writes, lifespan_state=state)
            )
            relaying = asyncio.ensure_future(self._relay(from_server))
            writer = asyncio.ensure_future(self._outlet.run())
            try:
                if await self._until_the_end(parent_gone, loop, handle_signals=handle_signals):
                    await self._last_words(loop)
            finally:
                tasks = (loop, relaying, writer)
                # Only what ended by itself tells of a fault: the SDK's loop ends a cancellation with errors of its own.
                ended = await asyncio.gather(*(task for task in tasks if task.done()), return_exceptions=True)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for stream in (self._to_server, self._server_reads, server_writes, from_server):
                    stream.close()
                self._deliveries.abandon("the session ended")
        broken = [error for error in ended if isinstance(error, Exception)]
        for error in broken:
            _log.error("the protocol server broke: %s", type(error).__name__, exc_info=error)
        return not broken

    async def _last_words(self, loop: "asyncio.Future[None]") -> None:
        """Let the SDK tell requests that stay unanswered so, and have it written; nobody waits long for that."""
        self._to_server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await asyncio.wait({loop})
                await self._outlet.flushed()

    async def _until_the_end(
        self, parent_gone: Callable[[], Awaitable[None]] | None, loop: "asyncio.Future[None]", *, handle_signals: bool
    ) -> bool:
        """Return once it is time to end; whether there is still someone to say something to."""
        first, second = asyncio.Event(), asyncio.Event()
        with _signals(first, second) if handle_signals else contextlib.nullcontext():
            at_once = [self._outgoing.broken.wait(), second.wait(), *([parent_gone()] if parent_gone else [])]
            gone: set[asyncio.Future[Any]] = {asyncio.ensure_future(end) for end in at_once}
            ended, told = asyncio.ensure_future(self._incoming.ended.wait()), asyncio.ensure_future(first.wait())
            try:
                await asyncio.wait({*gone, ended, told, loop}, return_when=asyncio.FIRST_COMPLETED)
                if not loop.done() and not any(end.done() for end in gone):
                    await self._last_answers(gone, told, first)
                return not any(end.done() for end in gone)  # 3
            finally:
                for end in (*gone, ended, told):
                    end.cancel()

    async def _last_answers(
        self, gone: "set[asyncio.Future[Any]]", told: "asyncio.Future[Any]", first: asyncio.Event
    ) -> None:
        """Let what is in flight be answered, within its grace; a signal that comes meanwhile shortens it."""
        if self._incoming.ended.is_set():  # 1
            for line in self._lines.finish():
                self._line(line)
        self._listening = False
        self._incoming.pause()
        quiet = asyncio.ensure_future(self._quiet())
        try:
            if not first.is_set():
                await asyncio.wait(
                    {quiet, told, *gone}, timeout=self._limits.end_grace, return_when=asyncio.FIRST_COMPLETED
                )
            if first.is_set():  # 2
                await asyncio.wait(
                    {quiet, *gone}, timeout=self._limits.signal_grace, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            quiet.cancel()

    async def _quiet(self) -> None:
        """Return once nothing awaited is in flight and everything is written."""
        while self._ledger.awaited:
            self._changed.clear()
            await self._changed.wait()
        await self._outlet.flushed()

    # -- from the client --

    def _heard(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._line(line)
        self._balance()

    def _balance(self) -> None:
        """Listen to the client as long as it listens to us, and while it has not too much in flight."""
        full = self._outlet.backlog > MAX_BACKLOG
        if full:
            self._room.clear()
        else:
            self._room.set()
        if full or len(self._ledger) >= MAX_IN_FLIGHT or not self._listening:
            self._incoming.pause()
        elif not self._incoming.ended.is_set():
            self._incoming.resume()

    def _line(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            self._refuse(Malformed(INVALID_REQUEST, f"Invalid request: a line is over {self._limits.line} bytes"), None)
            return
        message = framing.read(line)
        if isinstance(message, Batch):
            self._batch(message)
        else:
            self._take(message, None)

    def _batch(self, batch: Batch) -> None:
        if self._version != BATCHES:
            words = f"Invalid request: only {BATCHES} has batches, once it was negotiated"
            self._refuse(Malformed(INVALID_REQUEST, words), None)
        elif not 0 < len(batch.values) <= framing.MAX_BATCH:
            words = f"Invalid request: a batch has 1 to {framing.MAX_BATCH} messages"
            self._refuse(Malformed(INVALID_REQUEST, words), None)
        else:
            gathering = Gathering()
            for value in batch.values:
                self._take(framing.classify(value), gathering)
            gathering.closed = True
            self._outlet.batch(gathering)

    def _take(self, message: Request | Notification | Reply | Malformed, batch: Gathering | None) -> None:
        match message:
            case Malformed():
                self._refuse(message, batch)
            case Request(id=client_id, method="initialize") if batch is not None:
                self._refuse(
                    Malformed(INVALID_REQUEST, "Invalid request: initialize cannot be in a batch", client_id), batch
                )
            case Request(id=client_id, method=method, params=params):
                ours = self._ledger.open(client_id, method, batch)
                if ours is None:
                    words = "Invalid request: a request with this id is in flight"
                    self._refuse(Malformed(INVALID_REQUEST, words, client_id), batch)
                    return
                self._send(JSONRPCRequest(jsonrpc="2.0", id=ours, method=method, params=params))
            case Notification(method="notifications/cancelled", params=params):
                self._cancel(params or {})
            case Notification(method=method, params=params):
                self._send(JSONRPCNotification(jsonrpc="2.0", method=method, params=params))
            case Reply(id=client_id, result=result, error=error):
                self._send(
                    JSONRPCResponse(jsonrpc="2.0", id=client_id, result=result)
                    if result is not None
                    else JSONRPCError(jsonrpc="2.0", id=client_id, error=ErrorData.model_validate(error))
                )

    def _cancel(self, params: JsonObject) -> None:
        """Pass a cancel on under our id; a cancelled request is not answered, and its id is free again."""
        ours = self._ledger.inside(params.get("requestId"))
        if ours is None:
            return
        self._send(
            JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={**params, "requestId": ours})
        )
        flight = self._close(ours)
        self._deliveries.settle(ours, handed_over=False, cause="cancelled")
        if flight is not None and flight.batch is not None:
            self._outlet.batch(flight.batch)

    def _send(self, message: Any) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._to_server.send_nowait(SessionMessage(message))

    # -- from the server --

    async def _relay(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_server:
            async for session_message in from_server:
                self._said(session_message.message)
                await self._room.wait()

    def _said(self, message: Any) -> None:
        match message:
            case JSONRPCResponse(id=ours, result=result):
                self._answer(ours, {"result": result})
            case JSONRPCError(id=ours, error=error):
                self._answer(ours, {"error": error.model_dump(by_alias=True, exclude_none=True)})
            case JSONRPCNotification(method=method, params=params):
                said = {"jsonrpc": "2.0", "method": method}
                self._outlet.tell(said | ({"params": self._client_ids(params)} if params is not None else {}))
            case JSONRPCRequest():
                self._outlet.tell(message.model_dump(by_alias=True, exclude_none=True))

    def _client_ids(self, params: JsonObject) -> JsonObject:
        """Give a subscription's notifications the id that the client knows it by."""
        meta = params.get("_meta")
        if not isinstance(meta, dict) or SUBSCRIPTION_ID_META_KEY not in meta:
            return params
        theirs = self._ledger.outside(meta[SUBSCRIPTION_ID_META_KEY])
        return params if theirs is None else {**params, "_meta": {**meta, SUBSCRIPTION_ID_META_KEY: theirs}}

    def _answer(self, ours: Any, body: JsonObject) -> None:
        flight = self._close(ours)
        if flight is None:
            self._deliveries.settle(ours, handed_over=False, cause="cancelled")
            return
        if flight.method == "initialize" and "result" in body:
            self._version = str(body["result"].get("protocolVersion", ""))
        answer = {"jsonrpc": "2.0", "id": flight.id, **body}
        if flight.batch is None:
            self._outlet.answer(answer, ours)
            return
        flight.batch.add(answer, ours)
        self._outlet.batch(flight.batch)

    def _close(self, ours: Any) -> Flight | None:
        flight = self._ledger.close(ours)
        self._changed.set()
        self._balance()
        return flight

    def _refuse(self, malformed: Malformed, batch: Gathering | None) -> None:
        error = {"code": malformed.code, "message": malformed.message}
        answer: JsonObject = {"jsonrpc": "2.0", "id": malformed.id, "error": error}
        if batch is None:
            self._outlet.answer(answer, None)
        else:
            batch.add(answer)


@contextlib.contextmanager
def _signals(first: asyncio.Event, second: asyncio.Event) -> Any:
    def note() -> None:
        (second if first.is_set() else first).set()

    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    try:
        for number in numbers:
            loop.add_signal_handler(number, note)
    except NotImplementedError:  # Windows: a signal ends the process there, as it does by default
        yield
        return
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
