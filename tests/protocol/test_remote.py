"""RemoteNode against an upstream that does what it should not: verified first, nothing lost, every failure in words."""

import asyncio
import json
import socket

import pytest

from bascule.credentials import CredentialError
from bascule.node.terms import Category, Completed, Failed, Passed, Refused
from bascule.protocol.remote import STATUS
from kit.doubles import OWNER
from kit.remotes import call, names, remote
from kit.until import until
from kit.upstream import CHANGE, ECHO, response, upstream

pytestmark = pytest.mark.anyio


async def test_nothing_is_offered_before_identity_was_verified_and_then_all_of_it():
    async with upstream() as up, remote(up) as node:
        assert await names(node) == ["echo", "change"]
        assert [body["method"] for _, body in up.heard[:2]] == ["server/discover", "tools/list"]
        assert node.identity == ("up-box", "1.0.0")


@pytest.mark.parametrize(
    ("expect", "identity", "words"),
    [
        (("other@1.0.0",), {}, "another server"),
        (("up-box@1.0.1",), {}, "another version"),
        (("up-box@>=1.1,<2",), {}, "another version"),
        ((), {}, "another version"),
        (("up-box@1.0.0",), {"name": ""}, "another server"),
    ],
)
async def test_another_server_or_version_is_not_called_and_is_named(expect, identity, words):
    async with upstream() as up:
        up.identity |= identity
        async with remote(up, expect=expect) as node:
            assert await names(node) == [STATUS]
            answer = await call(node, "echo", {"text": "x"})
            assert isinstance(answer, Refused)
            assert answer.category is Category.TRANSPORT_FAILURE
            assert words in answer.message
            assert up.calls == []
            status = await call(node, STATUS)
            assert isinstance(status, Completed)
            assert words in status.value["cause"]


@pytest.mark.parametrize(
    "expect", [("up-box@1.0.0",), ("*@1.0.0",), ("up-box@>=0.9,<2",), ("x@1", "up-box@0.9,1.0.0"), ("up-box@*",)]
)
async def test_an_expectation_that_fits_travels_with_every_call(expect):
    async with upstream() as up, remote(up, expect=expect) as node:
        await call(node, "echo", {"text": "x"})
        assert up.calls[0]["params"]["_meta"]["bascule/expect"] == list(expect)


async def test_a_result_crosses_whole_in_its_order():
    async with upstream() as up, remote(up) as node:
        answer = await call(node, "echo", {"text": "ü"})
        assert isinstance(answer, Passed)
        assert answer.payload["content"] == [{"type": "text", "text": "ü", "x-unknown": [1, None]}]
        assert list(answer.payload["x-more"]) == ["b", "a"]


async def test_arguments_that_do_not_fit_are_never_sent():
    async with upstream() as up, remote(up) as node:
        answer = await call(node, "echo", {"text": 1})
        assert answer.category is Category.INVALID_REQUEST
        assert "/text" in answer.message
        assert up.calls == []


async def test_a_request_larger_than_a_controller_takes_is_said_before_it_is_sent():
    async with upstream() as up, remote(up) as node:
        answer = await call(node, "change", {"text": "x" * 4_200_000})
        assert isinstance(answer, Refused)
        assert "4194304" in answer.message
        assert up.calls == []
        assert isinstance(await call(node, "change", {"text": "x" * 4_000_000}), Passed)


async def test_more_calls_than_a_controller_reads_at_once_still_find_their_way():
    async with upstream() as up, remote(up) as node:
        answers = await asyncio.gather(*(call(node, "echo", {"text": str(number)}) for number in range(200)))
        assert [answer.payload["content"][0]["text"] for answer in answers] == [str(number) for number in range(200)]


async def test_a_write_carries_a_key_a_read_does_not_and_both_say_what_is_left_of_their_time():
    async with upstream() as up, remote(up) as node:
        await call(node, "echo", {"text": "x"}, remaining=5)
        await call(node, "change", {"text": "x"})
        await call(node, "change", {"text": "x"}, key="mine")
        read, write, keyed = (made["params"]["_meta"] for made in up.calls)
        assert "bascule/idempotencyKey" not in read
        assert read["bascule/deadlineMs"] <= 5000
        assert len(write["bascule/idempotencyKey"]) >= 32
        assert keyed["bascule/idempotencyKey"] == "mine"


async def test_the_request_is_pinned_authenticated_and_agrees_with_its_headers():
    async with upstream() as up, remote(up) as node:
        await call(node, "echo", {"text": "x"})
        fields, body = next(entry for entry in up.heard if entry[1]["method"] == "tools/call")
        assert fields["mcp-protocol-version"] == "2026-07-28"
        assert (fields["mcp-method"], fields["mcp-name"]) == ("tools/call", "echo")
        assert fields["host"] == f"127.0.0.1:{up.port}"
        assert body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


@pytest.mark.parametrize(
    ("raw", "tool", "kind", "category", "words"),
    [
        (b"", "echo", Failed, Category.TRANSPORT_FAILURE, ""),
        (b"", "change", Failed, Category.OUTCOME_UNKNOWN, "unknown"),
        (
            b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"half',
            "change",
            Failed,
            Category.OUTCOME_UNKNOWN,
            "",
        ),
        (
            b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n",
            "echo",
            None,
            None,
            "edirect",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<a/>", "echo", None, None, ""),
        (
            response(421, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no"}}),
            "change",
            Refused,
            None,
            "hosts",
        ),
        (
            response(503, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "busy"}}),
            "change",
            Refused,
            None,
            "",
        ),
        (b"not http at all\r\n\r\n", "echo", None, None, ""),
    ],
)
async def test_a_broken_answer_is_words_for_that_call_alone(raw, tool, kind, category, words):
    async with upstream() as up, remote(up) as node:
        await names(node)
        up.raw = lambda body: raw if body["params"]["arguments"]["text"] == "break" else None
        broken, fine = await asyncio.gather(call(node, tool, {"text": "break"}), call(node, "echo", {"text": "fine"}))
        assert isinstance(fine, Passed), "one failure never affects another call"
        assert isinstance(broken, kind or (Refused, Failed))
        assert category is None or broken.category is category
        assert words in broken.message
        assert "good" not in broken.message + broken.detail, "the token is in no text"
        up.raw = None
        assert isinstance(await call(node, tool, {"text": "again"}), Passed)


async def test_a_controller_that_is_not_there_was_never_sent_anything_and_is_found_when_it_comes():
    async with upstream() as gone:
        port = gone.port
    async with remote(f"http://127.0.0.1:{port}") as node:
        answer = await call(node, "change", {"text": "x"})
        assert isinstance(answer, Refused)
        assert "bascule serve" in answer.message
        changes = node.changes(OWNER)
        heard = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        async with upstream(port):
            async with asyncio.timeout(20):
                await heard
            assert "echo" in await names(node)
        await changes.aclose()


async def test_a_wrong_token_is_named_with_its_place_and_a_new_one_is_used_at_once():
    token = ["bad"]
    async with upstream() as up, remote(up, token=lambda: token[0], token_place="the file F") as node:
        answer = await call(node, "echo", {"text": "x"})
        assert "the file F" in answer.message
        token[0] = "good"
        await until(lambda: node.problem is None, within=15)
        assert isinstance(await call(node, "echo", {"text": "x"}), Passed)


async def test_a_missing_token_is_said_in_its_own_words_and_nothing_is_sent():
    def missing():
        raise CredentialError("the variable BASCULE_TOKEN is not set")

    async with upstream() as up, remote(up, token=missing) as node:
        answer = await call(node, "echo", {"text": "x"})
        assert "BASCULE_TOKEN is not set" in answer.message
        assert up.heard == []


async def test_a_listing_answers_in_time_when_the_controller_is_slow():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        async with remote(f"http://127.0.0.1:{silent.getsockname()[1]}", first_list=0.1) as node, asyncio.timeout(1.5):
            assert await names(node) == [STATUS]


async def test_one_bad_definition_is_set_aside_with_its_reason():
    bad = [
        {"name": "no-schema"},
        {**ECHO, "name": "array", "inputSchema": {"type": "array"}},
        3,
        {**ECHO, "name": "echo"},
    ]
    async with upstream(tools=[ECHO, *bad, CHANGE]) as up, remote(up) as node:
        offer = await node.offered_to(OWNER)
        assert [operation.name for operation in offer.operations] == ["echo", "change"]
        assert len(offer.set_aside) == len(bad)


async def test_a_pattern_only_the_server_can_match_leaves_the_tool_usable():
    schema = {"type": "object", "properties": {"text": {"type": "string", "pattern": "(?=x)x"}}}
    async with upstream(tools=[{**ECHO, "inputSchema": schema}]) as up, remote(up) as node:
        assert isinstance(await call(node, "echo", {"text": "anything"}), Passed)
        assert (
            json.loads(json.dumps((await node.offered_to(OWNER)).operations[0].definition.payload))["inputSchema"]
            == schema
        )


async def test_leaving_closes_that_one_request():
    async with upstream() as up, remote(up) as node:
        await names(node)
        entered = asyncio.Event()

        def never(_body):
            entered.set()

        hold = asyncio.Event()
        original = up._answer

        async def holding(fields, body, writer):
            if body["method"] == "tools/call":
                never(body)
                await hold.wait()
            return await original(fields, body, writer)

        up._answer = holding
        up.gone.clear()
        task = asyncio.ensure_future(call(node, "echo", {"text": "x"}))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold.set()
        async with asyncio.timeout(10):
            await up.gone.wait()
