"""Sizes and times of bodies, strictness of JSON, and what is turned away before any gate."""

import asyncio
import contextlib

import pytest

from bascule.gates.body import MAX_BODY, BodyGate
from bascule.gates.connections import ConnectionLimits
from kit.gates import boundary_on_a_socket
from kit.http import request, wire

pytestmark = pytest.mark.anyio


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


async def test_a_body_of_exactly_the_limit_passes_and_one_byte_more_does_not(tmp_path):
    padding = b'{"a":"' + b"x" * (MAX_BODY - 8) + b'"}'
    async with boundary_on_a_socket(tmp_path) as made:
        async with wire(made.port) as line:
            await line.say(request(body=padding))
            assert (await line.hear()).status == 200
        async with wire(made.port) as line:
            await line.say(request(body=padding[:8] + b"y" + padding[8:]))
            assert (await line.hear()).status == 413, "said before the body was sent whole, and not lost by it"


async def test_a_chunked_body_is_counted_as_it_comes(tmp_path):
    async with boundary_on_a_socket(tmp_path) as made:
        async with wire(made.port) as line:
            await line.say(
                request(body=b"", transfer_encoding="chunked", drop=("content-length",)) + chunked(b"{", b"}")
            )
            assert (await line.hear()).status == 200
        async with wire(made.port) as line:
            await line.say(request(body=b"", transfer_encoding="chunked", drop=("content-length",)))
            part = b"x" * 65536
            for _ in range(MAX_BODY // len(part) + 1):
                await line.say(b"%x\r\n%b\r\n" % (len(part), part))
            assert (await line.hear()).status == 413


async def test_a_body_that_trickles_past_its_time_is_408_and_closed():
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        await asyncio.Event().wait()

    scope = {"type": "http", "headers": []}
    await BodyGate(_never, read_time=0.05)(scope, receive, send)
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]


async def _never(scope, receive, send):
    raise AssertionError("a body that did not arrive must not go on")


async def test_a_peer_that_leaves_in_the_middle_of_its_body_frees_its_place(tmp_path):
    async with boundary_on_a_socket(tmp_path) as made:
        for _ in range(70):
            async with wire(made.port) as line:
                await line.say(request(body=b"", content_length="100") + b"{")
        async with wire(made.port) as line:
            await line.say(request())
            assert (await line.hear()).status == 200


async def test_the_sixty_fifth_request_being_read_is_told_to_retry_and_a_bad_token_is_still_401(tmp_path):
    async with boundary_on_a_socket(tmp_path) as made:
        lines = []
        for _ in range(64):
            reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
            writer.write(request(body=b"", content_length="100"))
            await writer.drain()
            lines.append((reader, writer))
        async with wire(made.port) as line:
            await line.say(request())
            answer = await line.hear()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        async with wire(made.port) as line:
            await line.say(request(authorization="Bearer bad"))
            assert (await line.hear()).status == 401
        for _, writer in lines:
            writer.close()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{} x", b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":1e999}',
     b'{"a":"\\ud800"}', b"\xef\xbb\xbf{}", b'{"a":"\xff"}', b'{"a":' * 65 + b"1" + b"}" * 65, b"{'a':1}", b"{}\x00"],
)  # fmt: skip
async def test_what_is_not_strict_json_is_a_parse_error(tmp_path, body):
    async with boundary_on_a_socket(tmp_path) as made, wire(made.port) as line:
        await line.say(request(body=body))
        answer = await line.hear()
        assert (answer.status, answer.error["code"]) == (400, -32700)


@pytest.mark.parametrize("body", [b"[]", b'[{"jsonrpc":"2.0"}]', b"1", b"null", b'"x"', b"true"])
async def test_what_is_not_one_object_is_an_invalid_request(tmp_path, body):
    async with boundary_on_a_socket(tmp_path) as made, wire(made.port) as line:
        await line.say(request(body=body))
        answer = await line.hear()
        assert (answer.status, answer.error["code"]) == (400, -32600)
        await line.say(request())
        assert (await line.hear()).status == 200, "the body was read whole, so the connection goes on"


MALFORMED = [
    b"GARBAGE\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n",
    b"post /mcp HTTP/1.1\r\nhost: a\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nbad name: x\r\n\r\n",
]


@pytest.mark.parametrize("data", MALFORMED)
async def test_malformed_http_is_answered_as_json_rpc_and_closed(tmp_path, data):
    async with boundary_on_a_socket(tmp_path) as made, wire(made.port) as line:
        await line.say(data)
        answer = await line.hear()
        assert (answer.status, answer.error["code"], answer.closed) == (400, -32600, True)
        assert made.counts.malformed == 1


@pytest.mark.parametrize(
    "data",
    [
        b"POST /mcp HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + b"x: y\r\n" * 101 + b"\r\n",
        b"POST /" + b"m" * 40_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nx: " + b"y" * 400_000,
    ],
    ids=["one large field", "many fields", "long target", "endless field"],
)
async def test_a_head_past_its_limits_is_ended(tmp_path, data):
    async with boundary_on_a_socket(tmp_path) as made, wire(made.port) as line:
        with contextlib.suppress(ConnectionError):
            await line.say(data)
        heard = await line.closed()
        assert heard == b"" or heard.startswith(b"HTTP/1.1 431")


async def test_a_head_that_does_not_end_in_time_is_ended_idle_ones_as_well(tmp_path):
    limits = ConnectionLimits(head_time=0.1)
    async with boundary_on_a_socket(tmp_path, limits=limits) as made:
        for said in (b"", b"POST /mcp HT"):
            async with wire(made.port) as line:
                await line.say(said)
                assert (await line.hear()).status == 408
        assert made.counts.slow == 2


async def test_connections_past_the_limit_are_closed_at_accept_and_counted(tmp_path):
    async with boundary_on_a_socket(tmp_path, limits=ConnectionLimits(connections=3)) as made:
        async with wire(made.port) as a, wire(made.port) as b, wire(made.port) as c:
            for line in (a, b, c):
                await line.say(request())
                assert (await line.hear()).status == 200
            async with wire(made.port) as fourth:
                assert await fourth.closed() == b""
            assert made.counts.over_limit == 1
            await a.say(request())
            assert (await a.hear()).status == 200
