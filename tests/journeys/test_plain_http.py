"""A client without an SDK against a real controller: what HTTP allows, and what becomes of it."""

import json

import psutil
import pytest

from kit.http import request, wire
from kit.journey import controller, set_up
from kit.until import until

pytestmark = pytest.mark.anyio

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def call(machine, name, arguments, *, message_id=1, **fields):
    """A whole `tools/call` request; without an id it is a notification."""
    message = {
        "jsonrpc": "2.0",
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments, "_meta": META},
    }
    if message_id is not None:
        message["id"] = message_id
    told = {
        "authorization": f"Bearer {machine.token}",
        "mcp_protocol_version": "2026-07-28",
        "mcp_method": "tools/call",
        "mcp_name": name,
    }
    return request(body=json.dumps(message).encode(), **(told | fields))


async def test_requests_sent_in_one_piece_are_answered_in_order(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up, wire(up.port) as line:
        await line.say(b"".join(call(machine, "say", {"text": str(n)}, message_id=n) for n in (1, 2, 3)))
        assert [(await line.hear()).json()["id"] for _ in range(3)] == [1, 2, 3]


async def test_a_notification_is_accepted_and_executes_nothing(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up, wire(up.port) as line:
        await line.say(call(machine, "touch", {"name": "made", "confirm": True}, message_id=None))
        assert (await line.hear()).status == 202
        await line.say(call(machine, "say", {"text": "x"}))
        assert (await line.hear()).status == 200
    assert not (machine.work / "made").exists()


async def test_a_session_id_means_nothing_and_none_is_given(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up, wire(up.port) as line:
        await line.say(call(machine, "say", {"text": "x"}, mcp_session_id="stolen"))
        answer = await line.hear()
        assert answer.status == 200
        assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    "fields", [{"mcp_name": "touch"}, {"mcp_method": "tools/list"}, {"mcp_protocol_version": "2099-01-01"}]
)
async def test_headers_that_disagree_with_the_body_are_refused_before_anything_is_done(tmp_path, fields):
    machine = await set_up(tmp_path)
    async with controller(machine) as up, wire(up.port) as line:
        await line.say(call(machine, "say", {"text": "x"}, **fields))
        answer = await line.hear()
        assert (answer.status, answer.error["code"]) == (400, -32020)


async def test_clients_that_call_and_leave_leave_no_process_behind(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up:
        for _ in range(20):
            async with wire(up.port) as line:
                await line.say(call(machine, "nap", {"seconds": 4801}))
        async with wire(up.port) as line:
            await line.say(call(machine, "say", {"text": "x"}))
            assert (await line.hear()).status == 200
        await until(lambda: not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "4801"]])
