"""What a RemoteNode knows of its server: every page, every change, who answers now, and nothing of it in any log."""

import asyncio
import logging

import pytest

from bascule.node.terms import Category, Effect, Passed, Refused
from bascule.protocol.addresses import CheckedBackend, read_url
from bascule.protocol.link import Link, Request
from bascule.protocol.mirror import read_tools
from bascule.protocol.remote import STATUS
from kit.certificates import certified
from kit.doubles import OWNER
from kit.remotes import call, names, remote
from kit.until import until
from kit.upstream import CHANGE, ECHO, response, upstream

pytestmark = pytest.mark.anyio


def tools(count):
    return [{**ECHO, "name": f"tool{number}"} for number in range(count)]


async def test_every_page_is_fetched_in_order():
    async with upstream(tools=tools(14), pages=5) as up, remote(up) as node:
        assert await names(node) == [f"tool{number}" for number in range(14)]
        cursors = [body["params"].get("cursor") for _, body in up.heard if body["method"] == "tools/list"][:3]
        assert cursors == [None, "5", "10"]


async def test_a_server_that_gives_the_same_cursor_for_ever_is_left():
    async with upstream(pages=-1) as up, remote(up) as node:
        assert await names(node) == ["echo", "change"]
        listed = [body for _, body in up.heard if body["method"] == "tools/list"]
        assert len(listed) <= 4, "two pages a fetch, and at most the fetch after subscribing"


async def test_a_change_there_is_a_change_here_without_being_asked():
    async with upstream() as up, remote(up) as node:
        await names(node)
        changes = node.changes(OWNER)
        heard = asyncio.ensure_future(anext(changes))
        await until(lambda: up.listeners)
        up.tools = [*up.tools, {**ECHO, "name": "fresh"}]
        up.announce()
        async with asyncio.timeout(20):
            await heard
        assert await names(node) == ["echo", "change", "fresh"]
        await changes.aclose()


async def test_a_server_without_subscriptions_is_used_all_the_same():
    async with upstream() as up:
        original = up._answer

        async def without(fields, body, writer):
            if body["method"] != "subscriptions/listen":
                return await original(fields, body, writer)
            error = {"code": -32601, "message": "Method not found"}
            writer.write(response(404, {"jsonrpc": "2.0", "id": body["id"], "error": error}))
            await writer.drain()
            return True

        up._answer = without
        async with remote(up) as node:
            await until(lambda: any(body["method"] == "subscriptions/listen" for _, body in up.heard))
            assert isinstance(await call(node, "echo", {"text": "x"}), Passed)
            asked = [body["method"] for _, body in up.heard].count("subscriptions/listen")
            assert asked == 1, "a refusal is not asked for again at once"


async def test_an_answer_of_a_stranger_is_kept_and_the_next_call_is_not_made():
    async with upstream() as up, remote(up) as node:
        await names(node)
        up.identity = {"name": "up-box", "version": "9.9.9"}
        first = await call(node, "change", {"text": "x"})
        assert isinstance(first, Passed), "an outcome is never discarded"
        second = await call(node, "change", {"text": "x"})
        assert isinstance(second, Refused)
        assert "another version" in second.message
        assert len(up.calls) == 1
        assert await names(node) == [STATUS]


async def test_a_stranger_heard_while_it_is_being_verified_is_verified_once_more():
    async with upstream() as up, remote(up) as node:
        await names(node)
        await until(lambda: up.listeners)
        listing, go_on = asyncio.Event(), asyncio.Event()
        original = up._answer

        async def slow(fields, body, writer):
            if body["method"] == "tools/list" and not go_on.is_set():
                listing.set()
                await go_on.wait()
            return await original(fields, body, writer)

        up._answer = slow
        up.announce()
        await listing.wait()
        up.identity = {"name": "another-box", "version": "1.0.0"}
        assert isinstance(await call(node, "echo", {"text": "x"}), Passed)
        go_on.set()
        answer = await call(node, "echo", {"text": "x"})
        assert isinstance(answer, Refused)
        assert "another server" in answer.message


async def test_a_restarted_controller_serves_the_very_next_call():
    async with upstream() as first:
        port = first.port
        node = remote(first)
        await node.__aenter__()
        assert isinstance(await call(node, "change", {"text": "x"}), Passed)
    async with upstream(port) as second:
        assert isinstance(await call(node, "change", {"text": "y"}), Passed)
        assert len(second.calls) == 1
    await node.__aexit__(None, None, None)


async def test_a_lost_controller_keeps_its_listing_and_names_itself_at_the_call():
    async with upstream() as up:
        node = remote(up)
        await node.__aenter__()
        await names(node)
    assert await names(node) == ["echo", "change"]
    answer = await call(node, "echo", {"text": "x"})
    assert "cannot be reached" in answer.message
    assert isinstance(answer, Refused), "it was never sent"
    await node.__aexit__(None, None, None)


async def test_requests_that_start_together_share_one_client():
    async with upstream() as up:
        link = Link(read_url(up.url), lambda: "good", client=("t", "1"))
        answers = await asyncio.gather(*(link.send(Request("server/discover", {}, 10, {})) for _ in range(8)))
        assert all("2026-07-28" in answer["supportedVersions"] for answer in answers)
        await link.__aexit__(None, None, None)
        left = [task for task in asyncio.all_tasks() if "Link._run" in repr(task)]
        assert left == []


@pytest.mark.parametrize(
    ("annotations", "effect"),
    [
        ({"readOnlyHint": True}, Effect.READ),
        ({"readOnlyHint": True, "destructiveHint": True}, Effect.READ),
        ({"destructiveHint": False}, Effect.WRITE),
        ({"readOnlyHint": False}, Effect.DESTRUCTIVE),
        ({}, Effect.DESTRUCTIVE),
        (None, Effect.DESTRUCTIVE),
        ("readOnlyHint", Effect.DESTRUCTIVE),
    ],
)
def test_what_is_not_said_to_be_harmless_is_not_taken_for_it(annotations, effect):
    mirror = read_tools([{**ECHO, "annotations": annotations}])
    assert mirror.tools["echo"].operation.effect is effect


@pytest.mark.parametrize("claimed", [10**400, -1, 0, True, "5000", None, [], 1e300])
def test_a_time_nobody_could_mean_is_the_default(claimed):
    mirror = read_tools([{**ECHO, "_meta": {"bascule/timeoutMs": claimed}}])
    assert mirror.tools["echo"].operation.timeout == 50.0


def test_a_time_that_is_meant_is_kept():
    assert read_tools([{**ECHO, "_meta": {"bascule/timeoutMs": 120_000}}]).tools["echo"].operation.timeout == 120.0


def test_a_name_with_dots_is_shown_folded_and_found_by_every_spelling():
    mirror = read_tools([{**ECHO, "name": "catalog.get-entity"}])
    tool = mirror.tools["catalog.get-entity"]
    assert tool.operation.definition.payload["name"] == "catalog_get-entity"
    assert tool.operation.definition.payload["title"] == "catalog.get-entity"
    assert mirror.find("catalog_get-entity") is mirror.find("catalog.get-entity") is tool


@pytest.mark.parametrize("name", ["Create CIFS Share", "", "x" * 129, "ü", 3, None, "a\nb"])
def test_a_name_no_client_could_call_is_set_aside(name):
    mirror = read_tools([{**ECHO, "name": name}, CHANGE])
    assert list(mirror.tools) == ["change"]
    assert len(mirror.set_aside) == 1


def test_an_output_schema_that_does_not_compile_is_left_out_and_the_tool_stays():
    dangling = {**ECHO, "outputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}}}
    mirror = read_tools([dangling])
    assert "outputSchema" not in mirror.tools["echo"].operation.definition.payload
    assert "outputSchema" in mirror.set_aside[0][1]


def test_references_and_recursion_in_a_schema_are_kept_and_checked():
    node = {"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array"}}}
    node["properties"]["children"]["items"] = {"$ref": "#/$defs/Node"}
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    tool = read_tools([{**ECHO, "inputSchema": schema}]).tools["echo"]
    assert tool.refusal({"root": {"name": "a", "children": [{"name": "b", "children": []}]}}) is None
    assert "/root/children/0/name" in tool.refusal({"root": {"children": [{"name": 3}]}}).message


async def test_the_token_is_in_no_log_at_any_level(caplog, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    token = "bsc_owner_" + "Z9" * 21 + "q"
    caplog.set_level(logging.DEBUG)
    async with upstream(token=token) as up, remote(up, token=token) as node:
        assert isinstance(await call(node, "change", {"text": "x"}), Passed), "and no proxy of the environment is asked"
        up.raw = lambda _body: b""
        await call(node, "change", {"text": "x"})
        up.token, up.raw = "another", None
        answer = await call(node, "change", {"text": "x"})
        assert answer.category is Category.PERMISSION_DENIED
        said = "".join(record.getMessage() + repr(record.args) + str(record.exc_info) for record in caplog.records)
        assert "tools/call" in said, "the debug log was on"
        assert token not in said + repr(node) + repr(node.__dict__) + answer.message + answer.detail


async def test_a_redirect_is_not_followed_even_on_its_own_origin():
    async with upstream() as up:
        moved = f"HTTP/1.1 307 X\r\nlocation: {up.url}/?secret=1\r\ncontent-length: 0\r\n\r\n".encode()
        up.raw = lambda _body: moved
        async with remote(up) as node:
            answer = await call(node, "change", {"text": "x"})
            assert isinstance(answer, Refused)
            assert "redirect" in answer.message
            assert "secret" not in answer.message
            assert len(up.calls) == 1


@pytest.mark.parametrize(("name", "fits"), [("box.internal", True), ("other.internal", False)])
async def test_the_name_of_the_url_is_the_one_on_the_certificate_and_in_host(name, fits, tmp_path):
    server, client = certified("box.internal", tmp_path)

    async def resolver(_host, _port):
        return ["127.0.0.1"]

    async with upstream(tls=server) as up:
        url = f"https://{name}:{up.port}/mcp"
        async with remote(url, backend=CheckedBackend(resolver=resolver), tls=client) as node:
            answer = await call(node, "echo", {"text": "x"})
            if fits:
                assert isinstance(answer, Passed)
                assert {fields["host"] for fields, _ in up.heard} == {f"box.internal:{up.port}"}
            else:
                assert isinstance(answer, Refused)
                assert "certificate" in answer.message.lower()
                assert up.heard == []
