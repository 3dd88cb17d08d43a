"""The pipe: every line is answered or served, ids never meet, and the end is orderly."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.node.terms import Completed
from bascule.protocol import framing
from bascule.protocol.framing import Lines, Malformed, Notification, Reply, Request, TooLong
from bascule.protocol.stdio import Limits
from kit.arrangements import _server, on_pipes
from kit.doubles import MemoryRecord, Scripted
from kit.journey import PATIENCE
from kit.peers import call, enveloped, shake_hands, words
from kit.until import until

pytestmark = pytest.mark.anyio


class Pipe:
    """A server on real pipes, with every line it wrote."""

    def __init__(self, peer, work, record):
        self.peer, self.work, self.record = peer, work, record
        self.lines = []
        hear = peer.heard

        def heard(line):
            self.lines.append(json.loads(line))
            if isinstance(self.lines[-1], dict) and (
                self.lines[-1].get("id") in peer._waiting or "method" in self.lines[-1]
            ):
                hear(line)

        peer.heard = heard

    async def say(self, *lines):
        for line in lines:
            await self.peer.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")

    async def errors(self, count):
        await until(lambda: len(self.lines) >= count)
        return [(line["error"]["code"], line["id"]) for line in self.lines if "error" in line]


@pytest.fixture
async def pipe(request):
    from bascule.node.local import LocalNode
    from bascule.node.registry import Registry
    from bascule.node.rules import allowlist

    record, registry, limits = MemoryRecord(), Registry(), getattr(request, "param", None)
    work = Scripted(record=record)
    registry.add(work)
    node = LocalNode(registry, allowlist(["*"]), record)
    async with on_pipes(lambda deliveries: _server(node, deliveries), "initialize", limits=limits) as peer:
        yield Pipe(peer, work, record)
        work.release.set()
    await node.aclose(1)


MALFORMED = [
    (b"{", -32700, None), (b"nonsense", -32700, None), (b'{"a":1,"a":2}', -32700, None), (b'{"id":1,"x":NaN}', -32700, None),
    (b'"\xff"', -32700, None), (b"\xef\xbb\xbf{}", -32700, None), (b"Content-Length: 12", -32700, None),
    (b"1", -32600, None), (b"null", -32600, None), (b'"x"', -32600, None), (b"{}", -32600, None), (b"[]", -32600, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
    (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7), (b'{"id":7,"method":"ping"}', -32600, 7),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None), (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":"a","method":3}', -32600, "a"), (b'{"jsonrpc":"2.0","id":"a","method":""}', -32600, "a"),
    (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}', -32600, "a"), (b'{"jsonrpc":"2.0","id":3}', -32600, 3),
    (b'{"jsonrpc":"2.0","id":3,"result":1}', -32600, 3),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "known"), MALFORMED)
async def test_every_malformed_line_is_answered_and_the_next_one_is_served(pipe, line, code, known):
    await pipe.say(line)
    assert await pipe.errors(1) == [(code, known)]
    await shake_hands(pipe.peer)
    assert words(await call(pipe.peer, "echo", {"text": "x"})) == "x"


async def test_a_call_without_an_id_is_not_executed(pipe):
    await shake_hands(pipe.peer)
    await pipe.say({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}})
    assert words(await call(pipe.peer, "echo", {"text": "y"})) == "y"
    assert [made.arguments for made in pipe.work.calls] == [{"text": "y"}]


async def test_blank_lines_crs_and_unicode_separators_are_no_ends_of_lines(pipe):
    await pipe.say(b"", b"  ", b"\r")
    await shake_hands(pipe.peer)
    text = "a\u2028b\u2029c\u0085d\r"
    assert words(await call(pipe.peer, "echo", {"text": text})) == text


async def test_the_same_id_in_flight_is_refused_and_seven_is_not_the_string_seven(pipe):
    await shake_hands(pipe.peer)
    request = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
    await pipe.say({**request, "id": 77}, {**request, "id": "77"}, {**request, "id": 77})
    assert (-32600, 77) in await pipe.errors(2)
    await pipe.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "77"}})
    await until(pipe.work.stopped.is_set)
    pipe.work.release.set()
    await until(lambda: [line for line in pipe.lines if line.get("id") == 77 and "result" in line])
    assert not [line for line in pipe.lines if line.get("id") == "77"], "what was cancelled is not answered"
    await pipe.say({**request, "id": 77, "params": {"name": "echo", "arguments": {"text": "again"}}})
    await until(lambda: [line for line in pipe.lines if "again" in json.dumps(line)])


@pytest.mark.parametrize("pipe", [Limits(line=10_000)], indirect=True)
async def test_a_line_over_the_limit_is_refused_and_skipped_and_its_neighbours_are_served(pipe):
    await shake_hands(pipe.peer)
    first = json.dumps({"jsonrpc": "2.0", "id": 91, "method": "ping"}).encode()
    last = json.dumps({"jsonrpc": "2.0", "id": 92, "method": "ping"}).encode()
    await pipe.peer.write(first + b"\n" + b"x" * 50_000 + b"\n" + last + b"\n")
    await until(lambda: {91, 92} <= {line.get("id") for line in pipe.lines})
    assert (-32600, None) in await pipe.errors(1)


@pytest.mark.parametrize("pipe", [Limits(answer=5_000)], indirect=True)
async def test_an_answer_no_client_could_read_becomes_its_true_size_and_operation_id(pipe):
    await shake_hands(pipe.peer)
    pipe.work.answer = Completed("x" * 20_000)
    result = await call(pipe.peer, "echo", {"text": "x"})
    assert result["isError"] is True
    assert "over the 5000" in words(result)
    assert pipe.record.opened[-1][0].id in words(result)
    assert all(len(json.dumps(line)) < 5_000 for line in pipe.lines)


async def test_batches_are_served_once_2025_03_26_was_negotiated(pipe):
    await shake_hands(pipe.peer, "2025-03-26")
    ping = {"jsonrpc": "2.0", "method": "ping"}
    await pipe.say(
        [{**ping, "id": 1001}, {"jsonrpc": "2.0", "method": "notifications/initialized"}, {**ping, "id": "b"}, 3]
    )
    await until(lambda: [line for line in pipe.lines if isinstance(line, list)])
    (answers,) = [line for line in pipe.lines if isinstance(line, list)]
    assert {json.dumps(answer.get("id")) for answer in answers} == {"1001", '"b"', "null"}
    await pipe.say([], [{"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {}}])
    await until(lambda: len([line for line in pipe.lines if isinstance(line, list)]) == 2)
    assert pipe.lines[-1][0]["error"]["code"] == -32600
    assert [line["error"]["code"] for line in pipe.lines if isinstance(line, dict) and "error" in line] == [-32600]
    await pipe.say([{"jsonrpc": "2.0", "method": "notifications/initialized"}], {**ping, "id": 5000})
    await until(lambda: [line for line in pipe.lines if isinstance(line, dict) and line.get("id") == 5000])
    assert len([line for line in pipe.lines if isinstance(line, list)]) == 2, "nothing answers notifications"


async def test_delivery_is_told_when_the_line_is_written_and_when_it_never_will_be(pipe):
    await shake_hands(pipe.peer)
    await call(pipe.peer, "echo", {"text": "x"})
    await until(lambda: [d for d in pipe.record.deliveries if d.delivered])
    ticket = await pipe.peer.start("tools/call", {"name": "wait", "arguments": {}})
    await until(pipe.work.entered.is_set)
    await pipe.peer.cancel(ticket)
    await until(lambda: [d for d in pipe.record.deliveries if not d.delivered])


# -- the program itself --

SERVER = """
import asyncio, sys
from bascule.assembly.loop import run
from bascule.node.local import LocalNode
from bascule.node.registry import Registry
from bascule.node.rules import allowlist
from bascule.protocol.stdio import serve_stdio, StdioDeliveries
from kit.arrangements import _server
from kit.doubles import MemoryRecord, Scripted
print("a stray print before")
async def main():
    registry = Registry()
    work = Scripted()
    registry.add(work)
    node = LocalNode(registry, allowlist(["*"]), MemoryRecord())
    if "slow" in sys.argv:
        asyncio.get_running_loop().call_later(0.3, work.release.set)
    deliveries = StdioDeliveries()
    code = await serve_stdio(_server(node, deliveries), deliveries=deliveries)
    print("a stray print after")
    await node.aclose(0)
    return code
sys.exit(run(main()))
"""


def start_program(*arguments, **more):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=environment, **more
    )


def line(message_id, name, arguments=None):
    params = enveloped({"name": name, "arguments": arguments or {}})
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "method": "tools/call", "params": params}).encode() + b"\n"


async def test_a_one_shot_client_gets_every_answer_before_the_end_and_nothing_else_is_on_stdout():
    process = start_program("slow")
    said = line(1, "wait") + line(2, "echo", {"text": "x"}) + line(3, "echo", {"text": "y"}).rstrip(b"\n")
    out, err = await asyncio.to_thread(process.communicate, said, PATIENCE)
    assert process.returncode == 0, err
    lines = [json.loads(text) for text in out.splitlines() if b"stray" not in text]
    assert sorted(answer["id"] for answer in lines) == [1, 2, 3]
    assert b"a stray print after" not in out


@pytest.mark.parametrize("how", ["term", "int", "eof"])
async def test_it_ends_by_itself_on_each_way_of_leaving(how):
    process = start_program()
    process.stdin.write(line(1, "echo", {"text": "x"}))
    process.stdin.flush()
    while b'"id":1' not in await asyncio.to_thread(process.stdout.readline):
        continue
    process.stdin.write(line(2, "wait"))
    process.stdin.flush()
    if how == "eof":
        process.stdin.close()
    else:
        process.send_signal({"term": 15, "int": 2}[how])
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


async def test_a_second_signal_ends_it_at_once():
    process = start_program()
    process.stdin.write(line(1, "echo", {"text": "x"}) + line(2, "wait"))
    process.stdin.flush()
    while b'"id":1' not in await asyncio.to_thread(process.stdout.readline):
        continue
    process.send_signal(15)
    process.send_signal(2)
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


async def test_a_reader_that_is_gone_ends_it():
    process = start_program()
    process.stdin.write(line(1, "echo", {"text": "x"}))
    process.stdin.flush()
    while b'"id":1' not in await asyncio.to_thread(process.stdout.readline):
        continue
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):  # it may have left already
        process.stdin.write(line(2, "echo", {"text": "x"}))
        process.stdin.flush()
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stderr.close()


async def test_input_from_a_file_is_served_as_well(tmp_path):
    (tmp_path / "in").write_bytes(line(1, "echo", {"text": "from a file"}))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with (tmp_path / "in").open("rb") as given, (tmp_path / "out").open("wb") as taken:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVER, stdin=given, stdout=taken, env=environment
        )
        assert await process.wait() == 0
    assert b"from a file" in (tmp_path / "out").read_bytes()


# -- framing, without pipes --


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_the_bytes_are_cut(size):
    data = b'{"a":1}\n\n  \r\n{"b":"\xe2\x80\xa8"}\r\nlast'
    lines = Lines()
    heard = [part for start in range(0, len(data), size) for part in lines.feed(data[start : start + size])]
    assert [*heard, *lines.finish()] == [b'{"a":1}', b'{"b":"\xe2\x80\xa8"}', b"last"]


def test_a_line_that_never_ends_is_told_at_once_and_costs_no_memory():
    lines = Lines(limit=100)
    assert lines.feed(b"x" * 101) == [TooLong()]
    assert lines.feed(b"x" * 1_000_000) == []
    assert lines.feed(b"\n{}\n") == [b"{}"]


def test_messages_are_told_apart():
    assert framing.read(b'{"jsonrpc":"2.0","id":1,"method":"m"}') == Request(1, "m", None)
    assert framing.read(b'{"jsonrpc":"2.0","method":"m","params":{}}') == Notification("m", {})
    assert framing.read(b'{"jsonrpc":"2.0","id":"a","result":{}}') == Reply("a", {}, None)
    assert isinstance(
        framing.read(b'{"jsonrpc":"2.0","id":"a","result":{},"error":{"code":1,"message":"x"}}'), Malformed
    )
