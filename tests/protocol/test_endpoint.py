"""The endpoint on a real socket: 2026-07-28 whole, every other opening refused by name, each answer accounted for."""

import asyncio
import json

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from bascule.node.terms import Cause, Completed, Fault
from bascule.protocol.versions import INITIALIZE_ERA
from kit.endpoints import CALLER, endpoint_on_a_socket
from kit.http import wire
from kit.nodes import Gate, Receipts, ScriptedNode, echo, operation
from kit.peers import MODERN, OURS, PREFIX, ask, call, enveloped, http_peer, words

pytestmark = pytest.mark.anyio

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": OURS}


def deadline():
    return asyncio.timeout(20)


@pytest.fixture
def node():
    return ScriptedNode()


@pytest.fixture
async def served(node):
    async with deadline(), endpoint_on_a_socket(node) as made:
        yield made


@pytest.fixture
async def http():
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


async def post(http, served, message, **headers):
    fields = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return await http.post(served.url, content=body, headers=fields)


def request(method, params=None, request_id=1):
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


def modern(method, **params):
    return request(method, enveloped(params))


# -- 2026-07-28 --


async def test_the_sdks_client_lists_calls_and_listens(node, served):
    node.does("device.info", Completed({"cpus": 2}))
    async with (
        httpx2.AsyncClient(trust_env=False) as plain,
        Client(streamable_http_client(served.url, http_client=plain), mode=MODERN) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["device_info"]
        result = await client.call_tool("device_info", {})
        assert result.structured_content == {"cpus": 2}
        async with client.listen(tools_list_changed=True) as events:
            await node.watched.wait()
            node.change([operation("new")])
            assert type(await anext(aiter(events))).__name__ == "ToolsListChanged"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["new"]
        with pytest.raises(MCPError):
            await client.list_prompts()


async def test_a_call_that_says_nothing_is_answered_as_plain_json(node, served, http):
    node.does("device.info", echo)
    message = modern("tools/call", name="device.info", arguments={"b": 1, "a": None})
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "device.info"}
    response = await post(http, served, message, **headers)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    result = response.json()["result"]
    assert result["structuredContent"] == {"b": 1, "a": None}
    assert result["_meta"][PREFIX + "serverInfo"] == {"name": "box", "version": "1.2.3"}
    [asked] = node.invocations
    assert (asked.caller, asked.if_dropped, asked.name) == (CALLER, Cause.ABANDONED, "device.info")


async def test_progress_and_logs_ride_on_the_stream_of_their_request_before_the_answer(node, served):
    async def script(invocation, back):
        for number in range(3):
            await back.progress(number, 3)
            await back.log("info", {"n": number})
        return Completed("done")

    node.does("x", script)
    async with http_peer(served.url, "nobody-checks") as peer:
        result = await call(peer, "x", {}, **{"progressToken": "p", PREFIX + "logLevel": "info"})
        assert words(result) == "done"
        assert [note["method"] for note in peer.notifications] == [
            "notifications/progress",
            "notifications/message",
        ] * 3


async def test_the_same_id_from_many_clients_is_never_crossed(node, served, http):
    node.does("x", echo)
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "x"}
    messages = [modern("tools/call", name="x", arguments={"n": number}) for number in range(20)]
    responses = await asyncio.gather(*(post(http, served, message, **headers) for message in messages))
    assert [response.json()["result"]["structuredContent"]["n"] for response in responses] == list(range(20))


async def test_a_plain_client_may_send_its_key_as_a_header(node, served, http):
    node.does("x", echo)
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "x", "idempotency_key": "k-1"}
    await post(http, served, modern("tools/call", name="x"), **headers)
    assert node.invocations[0].key == "k-1"


async def test_an_unknown_tool_is_a_result_and_an_unknown_method_404(node, served, http):
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "none"}
    response = await post(http, served, modern("tools/call", name="none"), **headers)
    assert response.status_code == 200
    assert response.json()["result"]["isError"] is True
    for method in ("ping", "resources/list", "initialize", "no/such"):
        headers = {"mcp_protocol_version": MODERN, "mcp_method": method}
        response = await post(http, served, modern(method), **headers)
        assert response.status_code == 404, method
        assert response.json()["error"]["code"] == -32601
        assert response.json()["id"] == 1


async def test_header_and_body_that_disagree_are_refused(node, served, http):
    node.does("x", echo)
    good = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "x"}
    for wrong in ({"mcp_method": "tools/list"}, {"mcp_name": "y"}, {"mcp_method": "TOOLS/CALL"}):
        response = await post(http, served, modern("tools/call", name="x"), **good | wrong)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == -32020
    assert node.invocations == []


async def test_arguments_that_clients_repeat_in_headers_are_held_to_them_once_the_tool_is_seen(node, served, http):
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    node.does(operation("x", arguments=schema), echo)
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "x"}
    message = modern("tools/call", name="x", arguments={"region": "north"})
    for wrong in ({}, {"mcp_param_region": "south"}):
        response = await post(http, served, message, **headers | wrong)
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)
    assert node.invocations == []
    response = await post(http, served, message, **headers, mcp_param_region="north")
    assert response.json()["result"]["structuredContent"] == {"region": "north"}
    hidden = modern("tools/call", name="y", arguments={"region": "north"})
    response = await post(http, served, hidden, **headers | {"mcp_name": "y", "mcp_param_region": "south"})
    assert response.json()["result"]["_meta"]["bascule/category"] == "unsupported_command"


async def test_an_unknown_revision_is_refused_with_what_is_served(served, http):
    message = request("tools/list", enveloped({"_meta": {PREFIX + "protocolVersion": "2099-01-01"}}))
    response = await post(http, served, message, mcp_protocol_version="2099-01-01", mcp_method="tools/list")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32022
    assert response.json()["error"]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


async def test_no_exceptions_text_reaches_a_client(node, served):
    async def explode(invocation, back):
        raise RuntimeError("s3cret text")

    node.does("x", explode)
    async with http_peer(served.url, "nobody-checks") as peer:
        result = await call(peer, "x")
        assert result["_meta"]["bascule/category"] == "internal_failure"
        assert "s3cret" not in json.dumps(result)


# -- other openings --


@pytest.mark.parametrize("header", [None, *INITIALIZE_ERA])
@pytest.mark.parametrize("requested", ["2024-11-05", "2025-11-25", "2026-07-28", "2099-01-01"])
async def test_initialize_is_refused_with_what_is_served_and_its_own_id(served, http, header, requested):
    headers = {"mcp_protocol_version": header} if header else {}
    message = request("initialize", HELLO | {"protocolVersion": requested}, request_id="seven")
    response = await post(http, served, message, **headers)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert answer["id"] == "seven"
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": requested}
    assert "mcp-session-id" not in response.headers


async def test_initialize_with_the_modern_header_is_an_unknown_method(served, http):
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "initialize"}
    response = await post(http, served, request("initialize", enveloped(HELLO)), **headers)
    assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize("header", [None, *INITIALIZE_ERA])
async def test_an_enveloped_body_whose_header_does_not_say_so_is_a_mismatch(served, http, header):
    headers = {"mcp_protocol_version": header} if header else {}
    response = await post(http, served, modern("tools/list"), **headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)
    assert response.json()["id"] == 1
    assert "MCP-Protocol-Version" in response.json()["error"]["message"]


@pytest.mark.parametrize("method", ["tools/list", "ping", "tools/call"])
async def test_what_names_no_revision_misses_a_header(served, http, method):
    response = await post(http, served, request(method))
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("header", INITIALIZE_ERA)
async def test_a_request_of_an_initialize_revision_is_refused_by_that_name(served, http, header):
    response = await post(http, served, request("tools/list"), mcp_protocol_version=header)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32022
    assert response.json()["error"]["data"] == {"supported": ["2026-07-28"], "requested": header}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"7", b"null", b'{"id": 1.5}', b'{"id": true}', b'{"id": {"a": 1}}']
)
async def test_a_refusal_of_what_has_no_usable_id_has_none(served, http, body):
    response = await post(http, served, body)
    assert response.status_code == 400
    assert response.json()["id"] is None


async def test_a_body_in_many_pieces_is_refused_with_its_id_too(served):
    body = json.dumps(request("initialize", HELLO, request_id=7)).encode()
    async with wire(served.port) as peer:
        await peer.say(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 20):
            piece = body[at : at + 20]
            await peer.say(b"%x\r\n%s\r\n" % (len(piece), piece))
        await peer.say(b"0\r\n\r\n")
        answer = await peer.hear()
    assert answer.json()["id"] == 7
    assert answer.error["code"] == -32022


async def test_the_sdks_older_client_is_told_by_name(served):
    async with httpx2.AsyncClient(trust_env=False) as plain:
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - a group around the error, or the error itself
            async with Client(streamable_http_client(served.url, http_client=plain), mode="legacy"):
                pass
    errors = [raised.value]
    while isinstance(errors[0], BaseExceptionGroup):
        errors = list(errors[0].exceptions)
    assert isinstance(errors[0], MCPError)
    assert errors[0].error.code == -32022


# -- receipts --


def call_bytes(name, **more):
    body = json.dumps(modern("tools/call", name=name, **more)).encode()
    fields = HEADERS | {
        "host": "localhost",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    head = "".join(f"{field}: {value}\r\n" for field, value in fields.items())
    return f"POST /mcp HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def test_an_answer_that_was_handed_over_is_delivered_once(node, served):
    receipt = Receipts()
    node.does("x", Completed(1, receipt=receipt))
    async with wire(served.port) as peer:
        await peer.say(call_bytes("x"))
        assert (await peer.hear()).status == 200
    await receipt.told.wait()
    assert receipt.reports == ["delivered"]


async def test_so_is_one_at_the_end_of_a_stream_and_a_fault(node, served):
    streamed, fault = Receipts(), Receipts()

    async def script(invocation, back):
        await back.progress(1)
        return Completed("done", receipt=streamed)

    node.does("streamed", script)
    node.does("fault", Fault(-32000, "x", receipt=fault))
    async with http_peer(served.url, "nobody-checks") as peer:
        await call(peer, "streamed", {}, progressToken=1)
        assert "error" in await ask(peer, "tools/call", {"name": "fault"})
    await asyncio.gather(streamed.told.wait(), fault.told.wait())
    assert (streamed.reports, fault.reports) == (["delivered"], ["delivered"])


async def test_a_client_that_leaves_ends_its_request_and_the_node_hears_of_it(node, served):
    gate = Gate()
    node.does("slow", gate)
    async with wire(served.port) as peer:
        await peer.say(call_bytes("slow"))
        await gate.entered.wait()
        peer.close()
        await gate.dropped.wait()


async def test_a_client_that_leaves_in_the_middle_of_a_stream_ends_its_request_too(node, served):
    started, dropped = asyncio.Event(), asyncio.Event()

    async def script(invocation, back):
        await back.progress(1)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            dropped.set()

    node.does("slow", script)
    async with wire(served.port) as peer:
        await peer.say(call_bytes("slow", _meta={"progressToken": 1}))
        await started.wait()
        peer.close()
        await dropped.wait()


async def test_an_answer_that_came_too_late_for_its_client_is_undelivered(node, served):
    """The node finishes its work although it was told to stop: what it says then reaches nobody."""
    receipt, entered = Receipts(), asyncio.Event()

    async def stubborn(invocation, back):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Completed("late", receipt=receipt)

    node.does("x", stubborn)
    async with wire(served.port) as peer:
        await peer.say(call_bytes("x"))
        await entered.wait()
        peer.close()
        await receipt.told.wait()
    assert receipt.reports == ["undelivered: disconnected"]


async def test_a_standing_stream_ends_with_its_result_when_the_endpoint_drains(node, served):
    async with http_peer(served.url, "nobody-checks") as peer:
        ticket = await peer.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await node.watched.wait()
        while not peer.notifications:
            await ask(peer, "tools/list")
        served.endpoint.close_streams()
        assert (await peer.answer(ticket))["result"]["resultType"] == "complete"
