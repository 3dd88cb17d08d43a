"""The pipe under load: a slow reader is held back, batches fit their line, receipts tell the truth, ends are clean."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from bascule.node.local import LocalNode
from bascule.node.registry import Registry
from bascule.node.rules import allowlist
from bascule.node.terms import Completed
from bascule.protocol import pipes
from bascule.protocol.stdio import Limits, StdioDeliveries, serve_stdio
from kit.arrangements import _server, on_pipes
from kit.doubles import MemoryRecord, Scripted
from kit.peers import shake_hands
from kit.until import until

pytestmark = pytest.mark.anyio

PING = {"jsonrpc": "2.0", "method": "ping"}


class Kept:
    """Receipts as they are settled."""

    def __init__(self):
        self.settled = []

    def delivered(self):
        self.settled.append("delivered")

    def undelivered(self, cause):
        self.settled.append(cause)


class Ends:
    """Both ends of a served pipe, of which the test reads only what it wants to."""

    def __init__(self, node, **more):
        self.deliveries = StdioDeliveries()
        in_read, self.to = os.pipe()
        self.given, out_write = os.pipe()
        os.set_blocking(self.to, False)
        os.set_blocking(self.given, False)
        self.served = (in_read, out_write)
        self.serving = asyncio.ensure_future(
            serve_stdio(
                _server(node, self.deliveries),
                deliveries=self.deliveries,
                stdin=in_read,
                stdout=out_write,
                handle_signals=False,
                **more,
            )
        )

    def write(self, data):
        """Write as much as the pipe takes now; return how much."""
        try:
            return os.write(self.to, data)
        except BlockingIOError:
            return 0

    def read(self, size=1 << 20):
        try:
            return os.read(self.given, size)
        except BlockingIOError:
            return b""

    async def end(self):
        os.close(self.to)
        async with asyncio.timeout(20):
            while not self.serving.done():
                self.read()
                await asyncio.sleep(0.01)  # the test plays the reader that went on reading
        for descriptor in (self.given, *self.served):
            os.close(descriptor)
        return self.serving.result()


@pytest.fixture
async def node():
    registry, record = Registry(), MemoryRecord()
    work = Scripted(record=record)
    registry.add(work)
    made = LocalNode(registry, allowlist(["*"]), record)
    made.work, made.record = work, record
    yield made
    work.release.set()
    await made.aclose(1)


async def flood(ends, data):
    """Write `data` over and over until nothing more is taken for a while; return how many bytes were."""
    taken = still = 0
    while still < 50 and taken < 64 * 1024 * 1024:
        wrote = ends.write(data)
        taken += wrote
        still = 0 if wrote else still + 1
        await asyncio.sleep(0.001 if wrote == 0 else 0)  # whether it is held back shows only with time
    return taken


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"jsonrpc":"2.0","id":1,"method":3}\n'])
async def test_a_client_that_sends_and_does_not_read_is_held_back(node, line):
    ends = Ends(node)
    taken = await flood(ends, line * 4096)
    assert taken < 16 * 1024 * 1024, "refusals nobody reads must not fill the memory"
    assert await ends.end() == 0


async def test_a_client_that_does_not_read_progress_holds_its_own_call_back(node):
    said = 0

    class Chatty(Scripted):
        async def execute(self, call, back):
            nonlocal said
            while not self.release.is_set():
                await back.progress(said, None, "x" * 10_000)
                said += 1
            return Completed(None)

    chatty = Chatty(prefix="chatty.")
    node._registry.add(chatty)
    ends = Ends(node)
    meta = {"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    meta |= {"io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}}
    meta |= {"io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": "chatty_echo", "arguments": {"text": "x"}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    ends.write(json.dumps(message).encode() + b"\n")
    before = -1
    while before != said or said == 0:
        before = said
        await asyncio.sleep(0.2)  # standing still is seen with time alone
    assert said < 2_000, "20 MB of progress wait for a client that reads none"
    chatty.release.set()
    assert await ends.end() == 0


@pytest.mark.parametrize("limits", [Limits(answer=4_000)])
async def test_a_batch_is_cut_only_where_it_does_not_fit_its_line(node, limits):
    async with on_pipes(lambda deliveries: _server(node, deliveries), "initialize", limits=limits) as peer:
        lines = []
        hear = peer.heard
        peer.heard = lambda line: lines.append(json.loads(line)) if line.startswith(b"[") else hear(line)
        await shake_hands(peer, "2025-03-26")

        def echo(message_id, size):
            params = {"name": "echo", "arguments": {"text": "x" * size}}
            return {"jsonrpc": "2.0", "id": message_id, "method": "tools/call", "params": params}

        fits = [echo("big", 1_500), *({**PING, "id": f"p{number}"} for number in range(9))]
        await peer.write(json.dumps(fits).encode() + b"\n")
        await until(lambda: lines)
        (big,) = [answer for answer in lines[0] if answer["id"] == "big"]
        assert big["result"].get("isError") is not True, "one large answer among small ones fits"
        await peer.write(json.dumps([echo("a", 3_000), echo("b", 3_000), {**PING, "id": "c"}]).encode() + b"\n")
        await until(lambda: len(lines) == 2)
        answers = {answer["id"]: answer for answer in lines[1]}
        assert set(answers) == {"a", "b", "c"}
        assert sum(answers[name]["result"].get("isError") is True for name in "ab") == 1, "one of them makes room"
        assert answers["c"]["result"] == {}
        assert all(len(json.dumps(line, separators=(",", ":"))) <= 4_000 for line in lines)


async def test_an_answer_that_was_replaced_was_not_delivered(node):
    limits = Limits(answer=5_000)
    async with on_pipes(lambda deliveries: _server(node, deliveries), "initialize", limits=limits) as peer:
        await shake_hands(peer)
        node.work.answer = Completed("x" * 20_000)
        await peer.answer(await peer.start("tools/call", {"name": "echo", "arguments": {"text": "x"}}))
        await until(lambda: node.record.deliveries)
        (told,) = node.record.deliveries
        assert told.delivered is False
        assert "bytes" in told.cause


async def test_an_answer_in_a_batch_is_delivered_with_its_line_and_not_before(node):
    receipt, other = Kept(), Kept()

    class Context:
        request_id = 1

    deliveries = StdioDeliveries()
    deliveries.expect(Context, receipt)
    async with on_pipes(lambda deliveries: _server(node, deliveries), "initialize") as peer:
        await shake_hands(peer, "2025-03-26")
        waits = {"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
        echo = {"name": "echo", "arguments": {"text": "x"}}
        quick = {"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": echo}
        await peer.write(json.dumps([quick, waits]).encode() + b"\n")
        await until(lambda: [closing for closing, _ in node.record.closed])
        assert node.record.deliveries == [], "its line is not written yet"
        node.work.release.set()
        await until(lambda: len(node.record.deliveries) == 2)
        assert all(told.delivered for told in node.record.deliveries)
    assert (receipt.settled, other.settled) == ([], [])


async def test_what_was_never_written_is_told_when_the_client_is_gone(node):
    node.work.answer = Completed("x" * 900_000)
    ends = Ends(node)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}
    for number in range(3):
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        ends.write(json.dumps(message).encode() + b"\n")
    await until(lambda: len(node.record.closed) == 3)
    os.close(ends.given)
    async with asyncio.timeout(20):
        assert await ends.serving == 0
    assert [told.delivered for told in node.record.deliveries] == [False] * 3
    for descriptor in (ends.to, *ends.served):
        os.close(descriptor)


@pytest.mark.parametrize("reads", [True, False])
async def test_a_dead_parent_ends_it_at_once_whatever_is_in_flight_or_unwritten(node, reads):
    node.work.answer = Completed("x" * 900_000)
    died = asyncio.Event()
    ends = Ends(node, parent_gone=died.wait, limits=Limits(end_grace=600, signal_grace=600))
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    for number, (name, arguments) in enumerate([("wait", {}), ("echo", {"text": "x"})]):
        params = {"name": name, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        ends.write(json.dumps(message).encode() + b"\n")
    await until(lambda: node.record.closed and node.work.entered.is_set())
    if reads:
        await until(lambda: ends.read().endswith(b"\n"))
    died.set()
    async with asyncio.timeout(20):
        assert await ends.serving == 0
    await until(node.work.stopped.is_set)
    for descriptor in (ends.to, ends.given, *ends.served):
        os.close(descriptor)


async def test_the_client_gets_its_pipes_back_as_they_were(node):
    ends = Ends(node)
    reading, writing = (os.dup(descriptor) for descriptor in ends.served)
    async with asyncio.timeout(10):
        assert os.get_blocking(reading)
        await until(lambda: not os.get_blocking(reading))
    assert await ends.end() == 0
    assert (os.get_blocking(reading), os.get_blocking(writing)) == (True, True), "a shell goes on with this terminal"
    os.close(reading)
    os.close(writing)


async def test_a_server_that_breaks_is_not_a_clean_end(node, caplog):
    class Broken(StdioDeliveries):
        pass

    deliveries = Broken()
    server = _server(node, deliveries)

    def broken(*_):
        raise RuntimeError("told to fail")

    server.create_initialization_options = broken
    server._handle_discover = broken
    in_read, to = os.pipe()
    given, out_write = os.pipe()

    async def fails(*_args, **_more):
        raise RuntimeError("told to fail")

    import bascule.protocol.stdio as stdio

    original = stdio.serve_dual_era_loop
    stdio.serve_dual_era_loop = fails
    try:
        async with asyncio.timeout(20):
            code = await serve_stdio(
                server, deliveries=deliveries, stdin=in_read, stdout=out_write, handle_signals=False
            )
    finally:
        stdio.serve_dual_era_loop = original
    assert code == 1
    assert "RuntimeError" in caplog.text
    for descriptor in (in_read, to, given, out_write):
        os.close(descriptor)


def test_descriptors_lead_elsewhere_once_they_are_taken():
    program = (
        "import os, sys\n"
        "from bascule.protocol import pipes\n"
        "reading, writing = pipes.take()\n"
        "print('stray'); os.write(1, b'stray'); os.system('echo stray')\n"
        "assert sys.stdin.read() == '' and os.read(0, 9) == b''\n"
        "writing.write(reading.read(5))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"hello", capture_output=True, timeout=30, check=False)
    assert done.stdout == b"hello"
    assert done.stderr.count(b"stray") == 3
    assert pipes.PIECE
