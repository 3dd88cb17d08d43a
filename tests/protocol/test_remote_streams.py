"""What a remote tool says while it works, and how streams end: in order, to the right call, and never at another's cost."""

import asyncio
import time

import pytest

from bascule.node.terms import Category, Failed, Passed, Refused
from kit.doubles import KeptBack, invocation
from kit.remotes import call, names, remote
from kit.upstream import CHANGE, answer_event, event, response, sse_head, upstream

pytestmark = pytest.mark.anyio

PROMPT = 1.0
"""Seconds within which an answer is there that nothing holds up; far above any scheduling on a busy machine."""


def asked(**meta):
    return {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}


def progress(body, done, **more):
    return event(
        "notifications/progress", {"progressToken": body["params"]["_meta"]["progressToken"], "progress": done, **more}
    )


async def invoke(node, back, params, name="echo"):
    async with asyncio.timeout(20):
        return await node.invoke(invocation(name, params["arguments"], params=Passed(params)), back)


async def test_fifty_steps_arrive_in_order_as_they_were_written_and_the_answer_waits_for_none_of_them():
    steps = [1, 2.5, *range(3, 51)]

    async def play(body, writer):
        writer.write(sse_head() + b"".join(progress(body, step, total=50, message=f"step {step}") for step in steps))
        writer.write(answer_event(body, {"content": []}))
        await writer.drain()
        return False

    async with upstream(play=play) as up, remote(up) as node:
        await names(node)
        back, started = KeptBack(), time.monotonic()
        answer = await invoke(node, back, asked(progressToken="mine"))
        assert isinstance(answer, Passed)
        assert back.said == [(step, 50, f"step {step}") for step in steps]
        assert [type(said[0]) for said in back.said[:3]] == [int, float, int]
        assert time.monotonic() - started < PROMPT
        assert up.calls[0]["params"]["_meta"]["progressToken"] != "mine", "a token of the bridge's own"


async def test_nothing_is_said_to_a_client_that_did_not_ask():
    async def play(body, writer):
        assert "progressToken" not in body["params"]["_meta"]
        writer.write(sse_head() + event("notifications/progress", {"progressToken": 1, "progress": 1}))
        writer.write(answer_event(body, {"content": []}))
        return False

    modern = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    async with upstream(play=play) as up, remote(up) as node:
        back = KeptBack()
        assert isinstance(await invoke(node, back, asked(**modern)), Passed)
        assert back.said == []


async def test_each_log_reaches_the_call_it_belongs_to_while_others_run():
    together = asyncio.Barrier(3)

    async def play(body, writer):
        writer.write(sse_head())
        await together.wait()
        text = body["params"]["arguments"]["text"]
        writer.write(event("notifications/message", {"level": "info", "data": text}) * 3)
        await writer.drain()
        await together.wait()
        writer.write(answer_event(body, {"content": []}))
        await writer.drain()
        return False

    async with upstream(play=play) as up, remote(up) as node:
        await names(node)
        backs = {text: KeptBack() for text in "abc"}
        level = {"io.modelcontextprotocol/logLevel": "info"}
        await asyncio.gather(
            *(
                invoke(node, back, {"name": "echo", "arguments": {"text": text}, "_meta": level})
                for text, back in backs.items()
            )
        )
        assert {text: back.said for text, back in backs.items()} == {text: [("info", text)] * 3 for text in "abc"}
        assert {made["params"]["_meta"]["io.modelcontextprotocol/logLevel"] for made in up.calls} == {"info"}


async def test_a_client_that_cannot_be_told_still_gets_its_answer():
    class Deaf(KeptBack):
        async def progress(self, *_said):
            raise ConnectionError("gone")

    async def play(body, writer):
        writer.write(sse_head() + progress(body, 1) + progress(body, 2) + answer_event(body, {"content": []}))
        await writer.drain()
        return False

    async with upstream(play=play) as up, remote(up) as node:
        await names(node)
        started = time.monotonic()
        assert isinstance(await invoke(node, Deaf(), asked(progressToken=1)), Passed)
        assert time.monotonic() - started < PROMPT


@pytest.mark.parametrize(
    ("tool", "category"), [("echo", Category.TRANSPORT_FAILURE), ("change", Category.OUTCOME_UNKNOWN)]
)
async def test_a_stream_that_breaks_ends_its_own_call_alone(tool, category):
    both = asyncio.Barrier(2)

    async def play(body, writer):
        writer.write(sse_head())
        await writer.drain()
        await both.wait()
        if body["params"]["arguments"]["text"] == "break":
            writer.transport.abort()
            return False
        writer.write(answer_event(body, {"content": []}))
        await writer.drain()
        return False

    async with upstream(play=play) as up, remote(up) as node:
        await names(node)
        broken, fine = await asyncio.gather(call(node, tool, {"text": "break"}), call(node, "echo", {"text": "fine"}))
        assert isinstance(fine, Passed)
        assert isinstance(broken, Failed)
        assert broken.category is category


async def test_a_stream_without_a_byte_is_dead_and_one_that_pings_is_not():
    async def play(body, writer):
        writer.write(sse_head())
        if body["params"]["arguments"]["text"] == "pings":
            for _ in range(6):
                writer.write(b": ping\n\n")
                await asyncio.sleep(0.2)  # what is tested is the passing of time itself
            writer.write(answer_event(body, {"content": []}))
            await writer.drain()
            return False
        await asyncio.Event().wait()
        return False

    async with upstream(play=play) as up, remote(up, silence=0.6) as node:
        await names(node)
        silent, pings = await asyncio.gather(
            call(node, "change", {"text": "silent"}), call(node, "echo", {"text": "pings"})
        )
        assert isinstance(pings, Passed)
        assert silent.category is Category.OUTCOME_UNKNOWN


async def test_the_time_of_a_call_ends_it_and_closes_its_stream():
    closed = asyncio.Event()

    async def play(body, writer):
        writer.write(sse_head())
        while not writer.is_closing():
            writer.write(b": ping\n\n")  # what a peer that went away answers with a reset
            await asyncio.sleep(0.02)
        closed.set()
        return False

    async with upstream(play=play) as up, remote(up, answer_grace=0.1) as node:
        await names(node)
        answer = await call(node, "change", {"text": "x"}, remaining=0.2)
        assert answer.category is Category.OUTCOME_UNKNOWN
        async with asyncio.timeout(10):
            await closed.wait()


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_an_error_that_quotes_the_token_is_said_without_it(status):
    token = "bsc_owner_" + "k" * 43

    def quoting(body):
        error = {"code": -32603, "message": f"no, {token} is not nice"}
        return response(status, {"jsonrpc": "2.0", "id": body["id"], "error": error})

    async with upstream(token=token, raw=quoting) as up, remote(up, token=token) as node:
        answer = await call(node, "change", {"text": "x"})
        assert "is not nice" in answer.message
        assert token not in answer.message + answer.detail


@pytest.mark.parametrize("status", [400, 406, 408, 413, 415])
async def test_what_a_gate_refused_was_not_executed(status):
    said = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "the body is over 4194304 bytes"}}
    async with upstream(raw=lambda _body: response(status, said)) as up, remote(up) as node:
        answer = await call(node, "change", {"text": "x"})
        assert isinstance(answer, Refused)
        assert "4194304" in answer.message
        assert "nothing was executed" in answer.message


@pytest.mark.parametrize(
    "answer",
    [
        {"jsonrpc": "2.0", "id": 4711, "result": {"content": []}},
        {"jsonrpc": "2.0", "id": None, "result": {"content": []}},
        {"jsonrpc": "2.0", "id": True, "result": {"content": []}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "result": 3},
        {"jsonrpc": "2.0", "id": 1, "error": "no"},
        [],
        3,
    ],
)
async def test_a_body_that_answers_nothing_is_said_at_once(answer):
    async with upstream(raw=lambda _body: response(200, answer)) as up, remote(up) as node:
        await names(node)
        started = time.monotonic()
        outcome = await call(node, "change", {"text": "x"})
        assert outcome.category is Category.OUTCOME_UNKNOWN
        assert time.monotonic() - started < PROMPT


async def test_an_answer_over_the_cap_is_not_read_to_its_end():
    def endless(_body):
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + b" " * (16 * 1024 * 1024 + 70_000)

    async with upstream(raw=endless) as up, remote(up) as node:
        answer = await call(node, "echo", {"text": "x"})
        assert "larger than 16777216" in answer.message


async def test_an_encoded_answer_is_not_unfolded():
    packed = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b"
    async with upstream(raw=lambda _body: packed) as up, remote(up) as node:
        assert isinstance(await call(node, "echo", {"text": "x"}), Failed)
        assert {fields["accept-encoding"] for fields, _ in up.heard} == {"identity"}


async def test_headers_that_disagree_with_a_newer_schema_are_made_again_once():
    newer = {**CHANGE["inputSchema"], "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}

    async def play(body, writer):
        fields = up.heard[-1][0]
        if "mcp-param-text" not in fields:
            up.tools = [{**CHANGE, "inputSchema": newer}]
            error = {"code": -32020, "message": "Mcp-Param-Text header is missing"}
            writer.write(response(400, {"jsonrpc": "2.0", "id": body["id"], "error": error}))
        else:
            assert fields["mcp-param-text"] == "=?base64?w7w=?="
            result = {"content": [], "resultType": "complete"}
            writer.write(response(200, {"jsonrpc": "2.0", "id": body["id"], "result": result}))
        await writer.drain()
        return True

    async with upstream(play=play, tools=[CHANGE]) as up, remote(up) as node:
        assert isinstance(await call(node, "change", {"text": "ü"}), Passed)
        assert len(up.calls) == 2
