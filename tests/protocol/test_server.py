"""The SDK's server over a node, in both eras on one pipe: the SDK's own client, and raw peers that see every member."""

import asyncio
import json
import logging

import pytest
from mcp import Client
from mcp_types import RequestParams, methods

from bascule.identity import Caller, NoCallerError
from bascule.node.terms import (
    Category,
    Cause,
    Completed,
    Effect,
    Failed,
    Fault,
    NeedsAnswer,
    Passed,
    Refused,
)
from bascule.protocol import catalogue
from bascule.protocol.back import LEVELS
from bascule.protocol.server import NodeServer
from kit.memory import piped, raw_peer
from kit.nodes import Gate, Receipts, ScriptedNode, echo, operation
from kit.peers import PREFIX, ask, call, words

pytestmark = pytest.mark.anyio

ERAS = ["modern", "legacy"]
VERSION = {"modern": "2026-07-28", "legacy": "2025-11-25"}
ALICE = Caller("alice")
LOG_LEVEL = PREFIX + "logLevel"


class Expected:
    """Deliveries that only keep what they were given."""

    def __init__(self):
        self.receipts = []

    def expect(self, ctx, receipt):
        self.receipts.append((ctx.request_id, receipt))


def served(node, **other):
    given = {
        "name": "box",
        "version": "1.2.3",
        "caller_of": lambda _ctx: ALICE,
        "deliveries": Expected(),
        "if_dropped": Cause.CANCELLED,
        "watched_as": ALICE,
    } | other
    return NodeServer(node, **given)


def deadline():
    return asyncio.timeout(20)


@pytest.fixture
def node():
    return ScriptedNode()


# -- with the SDK's own client --


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy", "auto"])
async def test_the_sdks_client_lists_and_calls(node, mode):
    node.does(operation("device.info", result={"type": "object", "required": ["cpus"]}), Completed({"cpus": 2}))
    async with deadline(), piped(served(node)) as streams, Client(_transport(streams), mode=mode) as client:
        [tool] = (await client.list_tools()).tools
        assert tool.name == "device_info"
        assert tool.title == "device.info"
        assert tool.annotations.read_only_hint is True
        result = await client.call_tool("device_info", {})
        assert result.structured_content == {"cpus": 2}
        assert result.content[0].text == '{"cpus":2}'
        assert result.is_error is False


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_refusal_is_a_result_to_the_sdks_client_though_the_tool_has_an_output_schema(node, mode):
    node.does(operation("x", result={"type": "object"}), Refused(Category.PERMISSION_DENIED, "not you"))
    async with deadline(), piped(served(node)) as streams, Client(_transport(streams), mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool("x", {})
        assert result.is_error is True
        assert result.content[0].text == "not you"


async def test_the_sdks_client_is_satisfied_with_previews_and_values_of_every_type(node):
    values = {"object": {"a": 1}, "array": [1], "string": "text", "integer": 7, "boolean": False}
    for kind, value in values.items():
        node.does(operation(f"read.{kind}", result={"type": kind}), Completed(value))
        preview = operation(f"write.{kind}", effect=Effect.WRITE, result={"type": kind})
        node.does(preview, Completed({"argv": []}, applied=False))
    async with deadline(), piped(served(node)) as streams, Client(_transport(streams), mode="2026-07-28") as client:
        await client.list_tools()
        for kind, value in values.items():
            assert (await client.call_tool(f"read_{kind}", {})).structured_content == value
            assert (await client.call_tool(f"write_{kind}", {})).structured_content["applied"] is False


def _transport(streams):
    """Streams that exist already, in the shape that `Client` enters."""

    class Given:
        async def __aenter__(self):
            return streams

        async def __aexit__(self, *_):
            return None

    return Given()


# -- listing --


@pytest.mark.parametrize("era", ERAS)
async def test_a_listing_is_exactly_what_the_sdk_would_have_sent(node, era):
    node.does("a.b", echo)
    async with deadline(), raw_peer(served(node), era) as peer:
        result = (await ask(peer, "tools/list"))["result"]
        version = VERSION[era]
        assert methods.serialize_server_result("tools/list", version, result) == result
        if era == "modern":
            assert result["_meta"] == {PREFIX + "serverInfo": {"name": "box", "version": "1.2.3"}}
            assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
            assert result["ttlMs"] >= 0
        else:
            assert set(result) == {"tools"}


@pytest.mark.parametrize("era", ERAS)
async def test_definitions_of_another_server_keep_unknown_members_and_their_order(node, era):
    definition = {"zeta": [None], "name": "far", "inputSchema": {"x-k": 1, "type": "object", "required": ["a"]}}
    node.does(operation("far", definition=Passed(definition)), echo)
    async with deadline(), raw_peer(served(node), era) as peer:
        [tool] = (await ask(peer, "tools/list"))["result"]["tools"]
        assert json.dumps(tool) == json.dumps(definition)


@pytest.mark.parametrize("era", ERAS)
async def test_one_bad_definition_costs_the_listing_nothing_and_is_logged_once(node, era, caplog):
    node.does(operation("bad", definition=Passed({"name": "bad", "inputSchema": []})), echo)
    node.does("good", echo)
    node.set_aside = (("far", "its program is missing"),)
    async with deadline(), raw_peer(served(node), era) as peer:
        for _ in range(2):
            assert [tool["name"] for tool in (await ask(peer, "tools/list"))["result"]["tools"]] == ["good"]
            node.change()
    told = [record.getMessage() for record in caplog.records if "is set aside" in record.getMessage()]
    assert [line.split("'")[1] for line in told] == ["far", "bad"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_changed_offer_is_listed_at_once(node, era):
    node.does("before", echo)
    async with deadline(), raw_peer(served(node), era) as peer:
        await ask(peer, "tools/list")
        node.change([operation("after")])
        assert [tool["name"] for tool in (await ask(peer, "tools/list"))["result"]["tools"]] == ["after"]


async def test_each_caller_is_shown_its_own_offer():
    class TwoFaced(ScriptedNode):
        async def offered_to(self, caller):
            self.operations = [operation(f"for.{caller.name}")]
            return await super().offered_to(caller)

    callers = iter([Caller("bob"), ALICE, Caller("bob"), ALICE])
    async with deadline(), raw_peer(served(TwoFaced(), caller_of=lambda _ctx: next(callers)), "modern") as peer:
        for name in ("bob", "alice", "bob", "alice"):
            [tool] = (await ask(peer, "tools/list"))["result"]["tools"]
            assert tool["name"] == f"for_{name}"


@pytest.mark.parametrize("era", ERAS)
async def test_a_listing_never_fails_even_when_the_node_breaks_its_word(node, era, caplog):
    node.does("known", echo)
    async with deadline(), raw_peer(served(node), era) as peer:
        node.broken = RuntimeError("s3cret")
        assert (await ask(peer, "tools/list"))["result"]["tools"] == []
        node.broken = None
        assert len((await ask(peer, "tools/list"))["result"]["tools"]) == 1
        node.broken = RuntimeError("s3cret")
        answer = await ask(peer, "tools/list")
        assert len(answer["result"]["tools"]) == 1
        assert words(await call(peer, "known", {"a": 1})) == '{"a":1}'
        assert "s3cret" not in json.dumps(answer)
    assert "the offer to alice" in caplog.text


@pytest.mark.parametrize("era", ERAS)
async def test_thousands_of_tools_come_in_pages(node, era):
    names = [f"op{n}" for n in range(catalogue.PAGE * 2 + 3)]
    node.change([operation(name) for name in names])
    seen, cursor = [], None
    async with deadline(), raw_peer(served(node), era) as peer:
        while True:
            result = (await ask(peer, "tools/list", {"cursor": cursor} if cursor else {}))["result"]
            seen += [tool["name"] for tool in result["tools"]]
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        node.change()
        assert seen == names
        stale = await ask(peer, "tools/list", {"cursor": "bm8="})
        assert stale["error"]["code"] == -32602
        assert (await ask(peer, "tools/list", {"cursor": 7}))["error"]["code"] == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_kinds_without_items_are_neither_advertised_nor_served(node, era):
    async with deadline(), raw_peer(served(node), era) as peer:
        for method, params in {"resources/list": {}, "prompts/list": {}, "prompts/get": {"name": "x"}}.items():
            assert (await ask(peer, method, params))["error"]["code"] == -32601
        assert (await ask(peer, "no/such"))["error"]["code"] == -32601
    async with deadline(), raw_peer(served(node), "modern") as peer:
        capabilities = (await ask(peer, "server/discover"))["result"]["capabilities"]
        assert capabilities == {"tools": {"listChanged": True}, "logging": {}}


async def test_a_ping_is_answered_where_the_revision_has_it(node):
    async with deadline(), raw_peer(served(node), "legacy") as peer:
        assert (await ask(peer, "ping"))["result"] == {}
    async with deadline(), raw_peer(served(node), "modern") as peer:
        assert (await ask(peer, "ping"))["error"]["code"] == -32601


# -- calling --


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["device.info", "device_info"])
async def test_both_spellings_reach_the_operation(node, era, name):
    node.does("device.info", echo)
    async with deadline(), raw_peer(served(node, trace_of=lambda _ctx: "t-9"), era) as peer:
        result = await call(peer, name, {"b": 1, "a": [None, 10**300, 0.1]})
        [asked] = node.invocations
        assert asked.name == "device.info"
        assert asked.arguments == {"b": 1, "a": [None, 10**300, 0.1]}
        assert (asked.caller, asked.trace, asked.if_dropped) == (ALICE, "t-9", Cause.CANCELLED)
        assert asked.params.payload["name"] == name
        assert result["structuredContent"] == asked.arguments
        assert result["_meta"]["bascule/operationId"] == asked.id


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_goes_to_the_node_as_sent_and_its_answer_is_a_result(node, era):
    async with deadline(), raw_peer(served(node), era) as peer:
        result = await call(peer, "no.such-tool", {})
        assert node.invocations[0].name == "no.such-tool"
        assert result["isError"] is True
        assert result["_meta"]["bascule/category"] == "unsupported_command"


@pytest.mark.parametrize("era", ERAS)
async def test_deadline_and_key_are_carried(node, era):
    node.does("x", echo)
    async with deadline(), raw_peer(served(node), era) as peer:
        await call(peer, "x", {}, **{"bascule/deadlineMs": 250, "bascule/idempotencyKey": "k"})
        assert (node.invocations[0].remaining, node.invocations[0].key) == (0.25, "k")
        result = await call(peer, "x", {}, **{"bascule/idempotencyKey": "two words"})
        assert result["_meta"]["bascule/category"] == "invalid_request"
        assert result["_meta"]["bascule/operationId"]
        assert len(node.invocations) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_of_another_type_are_a_failure_of_the_call_and_a_message_without_a_name_is_malformed(node, era):
    node.does("x", echo)
    async with deadline(), raw_peer(served(node), era) as peer:
        for arguments in ([1], "text", 7, False):
            await call(peer, "x", arguments)
            assert node.invocations[-1].arguments == arguments
        asked = len(node.invocations)
        for params in (
            {},
            {"name": 7},
            {"name": None},
            {"name": "x", "_meta": 7 if era == "legacy" else {"progressToken": []}},
        ):
            answer = await ask(peer, "tools/call", params)
            assert answer["error"]["code"] == -32602, params
        assert len(node.invocations) == asked


FAILURES = [
    Refused(Category.NODE_BUSY, "later", detail="d3tail"),
    Failed(Category.COMMAND_FAILED, "exit 1", detail="d3tail", value={"exitCode": 1}),
    NeedsAnswer("ask a person", detail="d3tail"),
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("answer", FAILURES, ids=lambda answer: type(answer).__name__)
async def test_every_failure_of_a_call_is_a_result_without_what_is_for_the_log(node, era, answer):
    node.does("x", answer)
    async with deadline(), raw_peer(served(node), era) as peer:
        result = await call(peer, "x")
        assert result["isError"] is True
        assert words(result).startswith(answer.message)
        assert "d3tail" not in json.dumps(result)
        assert methods.serialize_server_result("tools/call", VERSION[era], result) == result


@pytest.mark.parametrize("era", ERAS)
async def test_a_fault_of_another_server_is_that_error(node, era):
    node.does("x", Fault(-32099, "over there", {"why": [None]}))
    async with deadline(), raw_peer(served(node), era) as peer:
        answer = await ask(peer, "tools/call", {"name": "x"})
        assert answer["error"] == {"code": -32099, "message": "over there", "data": {"why": [None]}}


@pytest.mark.parametrize("era", ERAS)
async def test_another_servers_result_crosses_with_unknown_members_nulls_and_order(node, era):
    payload = {
        "zeta": {"unknown": None},
        "content": [{"type": "hologram", "nothing": None, "data": 10**30}],
        "isError": False,
        "_meta": {"vendor/x": None, PREFIX + "serverInfo": {"name": "far", "version": "9"}},
    }
    node.does("x", Passed(payload))
    async with deadline(), raw_peer(served(node), era) as peer:
        result = await call(peer, "x")
        meta = result.pop("_meta")
        assert result.pop("resultType", "complete") == "complete"
        assert json.dumps(result) == json.dumps({name: payload[name] for name in ("zeta", "content", "isError")})
        assert meta["vendor/x"] is None
        ours = {"name": "box", "version": "1.2.3"}
        assert meta.get(PREFIX + "serverInfo") == (ours if era == "modern" else None)


# -- the last catch --


class S3cretError(Exception):
    pass


async def explode(invocation, back):
    raise S3cretError("s3cret text")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "script",
    [explode, Completed(object()), Completed({"a": float("inf")}), Passed("s3cret text"), None],
    ids=["raises", "no json", "not finite", "no result", "not even an answer"],
)
async def test_a_failure_of_ours_is_a_result_that_the_log_explains(node, era, script, caplog):
    async def nothing(invocation, back):
        return None

    node.does("x", script or nothing)
    async with deadline(), raw_peer(served(node), era) as peer:
        result = await call(peer, "x")
        operation_id = node.invocations[0].id
        assert words(result).startswith(f"Internal error; the log knows it as operation {operation_id}")
        assert result["_meta"]["bascule/category"] == "internal_failure"
        assert result["_meta"]["bascule/outcome"]["effect"] == "may be partial"
        assert "s3cret" not in json.dumps(result)
        assert operation_id in caplog.text


@pytest.mark.parametrize("era", ERAS)
async def test_a_request_nobody_can_be_held_to_is_not_served(node, era, caplog):
    node.does("x", echo)

    def nobody(ctx):
        raise NoCallerError("s3cret text")

    async with deadline(), raw_peer(served(node, caller_of=nobody), era) as peer:
        result = await call(peer, "x")
        assert result["_meta"]["bascule/category"] == "internal_failure"
        assert result["_meta"]["bascule/outcome"]["effect"] == "none"
        listing = await ask(peer, "tools/list")
        assert listing["error"] == {"code": -32603, "message": "Internal error"}
        assert "s3cret" not in json.dumps([result, listing])
        assert node.invocations == []


@pytest.mark.parametrize("era", ERAS)
async def test_no_exceptions_text_leaves_through_any_other_method(node, era, caplog):
    server = served(node)

    async def broken(ctx, params):
        raise S3cretError("s3cret text")

    server.add_request_handler("vendor/method", RequestParams, broken)
    async with deadline(), raw_peer(server, era) as peer:
        answer = await ask(peer, "vendor/method")
        assert answer["error"] == {"code": -32603, "message": "Internal error"}
        assert "vendor/method failed" in caplog.text


# -- receipts --


@pytest.mark.parametrize("era", ERAS)
async def test_the_receipt_of_each_answer_is_expected_once_also_of_faults_and_of_ours_that_cannot_be_sent(node, era):
    receipts = {name: Receipts() for name in ("fine", "fault", "unfit")}
    node.does("fine", Completed(1, receipt=receipts["fine"]))
    node.does("fault", Fault(-32000, "x", receipt=receipts["fault"]))
    node.does("unfit", Completed(object(), receipt=receipts["unfit"]))
    deliveries = Expected()
    async with deadline(), raw_peer(served(node, deliveries=deliveries), era) as peer:
        for name in receipts:
            await ask(peer, "tools/call", {"name": name})
    assert [receipt for _, receipt in deliveries.receipts] == list(receipts.values())
    assert len({request_id for request_id, _ in deliveries.receipts}) == 3


# -- cancelling --


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_leaves_the_node_and_others_go_on(node, era):
    gate, other = Gate(), Gate()
    node.does("slow", gate)
    node.does("other", other)
    async with deadline(), raw_peer(served(node), era) as peer:
        ticket = await peer.start("tools/call", {"name": "slow"})
        beside = await peer.start("tools/call", {"name": "other"})
        await gate.entered.wait()
        await other.entered.wait()
        await peer.cancel(ticket)
        await gate.dropped.wait()
        other.release.set()
        assert words((await peer.answer(beside))["result"]) == "through"
        assert not other.dropped.is_set()


async def test_calls_run_side_by_side(node):
    gates = [Gate() for _ in range(5)]
    for number, gate in enumerate(gates):
        node.does(f"op{number}", gate)
    async with deadline(), raw_peer(served(node), "modern") as peer:
        tickets = [await peer.start("tools/call", {"name": f"op{number}"}) for number in range(5)]
        for gate in gates:
            await gate.entered.wait()
        for ticket, gate in zip(reversed(tickets), reversed(gates), strict=True):
            gate.release.set()
            assert words((await peer.answer(ticket))["result"]) == "through"


# -- what the node says while it works --


def talkative(levels):
    async def script(invocation, back):
        for number, level in enumerate(levels):
            await back.progress(number, len(levels), f"step {number}")
            await back.log(level, {"n": number})
        return Completed("done")

    return script


def methods_of(peer):
    return [note["method"].removeprefix("notifications/") for note in peer.notifications]


@pytest.mark.parametrize("era", ERAS)
async def test_progress_and_logs_arrive_in_order_before_the_answer(node, era):
    node.does("x", talkative(["info"] * 20))
    meta = {"progressToken": "p"} | ({LOG_LEVEL: "info"} if era == "modern" else {})
    async with deadline(), raw_peer(served(node), era) as peer:
        await call(peer, "x", {}, **meta)
        assert methods_of(peer) == ["progress", "message"] * 20
        assert [note["params"]["progress"] for note in peer.notifications[::2]] == list(range(20))
        assert peer.notifications[0]["params"] == {
            "progressToken": "p",
            "progress": 0.0,
            "total": 20.0,
            "message": "step 0",
        }
        assert [note["params"]["data"]["n"] for note in peer.notifications[1::2]] == list(range(20))


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_token_there_is_no_progress(node, era):
    node.does("x", talkative(["info"]))
    async with deadline(), raw_peer(served(node), era) as peer:
        await call(peer, "x", {})
        assert methods_of(peer) == (["message"] if era == "legacy" else [])


@pytest.mark.parametrize("least", [None, *LEVELS, "shouting"])
async def test_a_2026_07_28_request_hears_only_the_levels_it_asked_for(node, least):
    node.does("x", talkative([*LEVELS, "shouting"]))
    async with deadline(), raw_peer(served(node), "modern") as peer:
        params = {"name": "x", "_meta": {} if least is None else {LOG_LEVEL: least}}
        answer = await ask(peer, "tools/call", params)
        heard = [note["params"]["level"] for note in peer.notifications]
        if least == "shouting":
            assert answer["error"]["code"] == -32602
        else:
            assert heard == ([] if least is None else list(LEVELS[LEVELS.index(least) :]))


@pytest.mark.parametrize("least", LEVELS)
async def test_an_initialize_era_client_hears_the_levels_it_set(node, least):
    node.does("x", talkative(LEVELS))
    async with deadline(), raw_peer(served(node), "legacy") as peer:
        assert "result" in await ask(peer, "logging/setLevel", {"level": least})
        await call(peer, "x", {})
        assert [note["params"]["level"] for note in peer.notifications] == list(LEVELS[LEVELS.index(least) :])
        assert (await ask(peer, "logging/setLevel", {"level": "shouting"}))["error"]["code"] == -32602


async def test_a_level_belongs_to_its_connection(node):
    node.does("x", talkative(LEVELS))
    server = served(node)
    async with deadline(), raw_peer(server, "legacy") as quiet, raw_peer(server, "legacy") as other:
        await ask(quiet, "logging/setLevel", {"level": "emergency"})
        await call(quiet, "x", {})
        await call(other, "x", {})
        assert len(quiet.notifications) == 1
        assert len(other.notifications) == len(LEVELS) - 1


@pytest.mark.parametrize("era", ERAS)
async def test_nothing_is_said_after_the_answer(node, era):
    late = asyncio.Event()
    tasks = []

    async def later(back):
        await late.wait()
        await back.progress(99)

    async def script(invocation, back):
        tasks.append(asyncio.ensure_future(later(back)))
        tasks.append(asyncio.ensure_future(back.progress(1)))
        await asyncio.sleep(0)
        return Completed("done")

    node.does("x", script)
    async with deadline(), raw_peer(served(node), era) as peer:
        await call(peer, "x", {}, progressToken="p")
        assert [note["params"]["progress"] for note in peer.notifications] == [1]
        late.set()
        await asyncio.gather(*tasks)
        await ask(peer, "tools/list")
        assert len(peer.notifications) == 1


class Held:
    """A stream on which progress stands still until it is released."""

    def __init__(self):
        self.inner, self.entered, self.release = None, asyncio.Event(), asyncio.Event()

    def __call__(self, stream):
        self.inner = stream
        return self

    async def send(self, item):
        if getattr(item.message, "method", "") == "notifications/progress":
            self.entered.set()
            await self.release.wait()
        await self.inner.send(item)

    async def aclose(self):
        await self.inner.aclose()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()


@pytest.mark.parametrize("era", ERAS)
async def test_the_answer_waits_for_what_is_still_being_said(node, era):
    held, tasks = Held(), []

    async def script(invocation, back):
        tasks.extend(asyncio.ensure_future(back.progress(number)) for number in range(5))
        await held.entered.wait()
        return Completed("done")

    node.does("x", script)
    async with deadline(), raw_peer(served(node), era, outlet=held) as peer:
        ticket = await peer.start("tools/call", {"name": "x", "_meta": {"progressToken": 1}})
        await held.entered.wait()
        await ask(peer, "tools/list")
        assert ticket in peer._waiting
        held.release.set()
        assert words((await peer.answer(ticket))["result"]) == "done"
        assert [note["params"]["progress"] for note in peer.notifications] == list(range(5))


# -- changes --


async def test_an_initialize_era_client_is_told_that_the_tools_changed(node):
    server = served(node)
    changed = asyncio.Event()

    async def heard(message):
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            changed.set()

    async with (
        deadline(),
        piped(server) as streams,
        Client(_transport(streams), mode="legacy", message_handler=heard) as client,
    ):
        assert client.server_capabilities.tools.list_changed is True
        await node.watched.wait()
        await client.list_tools()
        node.change([operation("new")])
        await changed.wait()
        assert [tool.name for tool in (await client.list_tools()).tools] == ["new"]


async def test_a_2026_07_28_client_is_told_on_the_stream_it_listens_on(node):
    server = served(node)
    async with deadline(), piped(server) as streams, Client(_transport(streams), mode="2026-07-28") as client:
        async with client.listen(tools_list_changed=True) as events:
            await node.watched.wait()
            node.change([operation("new")])
            assert type(await anext(aiter(events))).__name__ == "ToolsListChanged"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["new"]


async def test_standing_streams_end_with_their_result_when_closed(node):
    server = served(node)
    async with deadline(), raw_peer(server, "modern") as peer:
        ticket = await peer.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await ask(peer, "tools/list")
        server.close_streams()
        assert (await peer.answer(ticket))["result"]["resultType"] == "complete"


async def test_where_nothing_is_watched_no_changes_are_promised(node):
    async with deadline(), raw_peer(served(node, watched_as=None), "modern") as peer:
        assert (await ask(peer, "server/discover"))["result"]["capabilities"]["tools"] == {"listChanged": False}
    async with (
        deadline(),
        piped(served(node, watched_as=None)) as streams,
        Client(_transport(streams), mode="legacy") as client,
    ):
        assert client.server_capabilities.tools.list_changed is False


async def test_a_node_that_breaks_while_watched_is_logged_and_the_server_goes_on(caplog):
    class Unwatchable(ScriptedNode):
        async def changes(self, caller):
            self.watched.set()
            raise S3cretError("x")
            yield

    node = Unwatchable()
    node.does("x", echo)
    async with deadline(), raw_peer(served(node), "modern") as peer:
        await node.watched.wait()
        assert words(await call(peer, "x", {"a": 1})) == '{"a":1}'
    assert "no longer announced" in caplog.text


# -- quiet --


@pytest.mark.parametrize("era", ERAS)
async def test_a_healthy_call_logs_nothing_and_warns_of_nothing(node, era, caplog, recwarn):
    node.does("x", talkative(["info"]))
    with caplog.at_level(logging.INFO):
        async with deadline(), raw_peer(served(node), era) as peer:
            await ask(peer, "tools/list")
            await call(peer, "x", {}, progressToken=1)
    assert [record for record in caplog.records if record.name.startswith("bascule")] == []
    assert list(recwarn) == []
