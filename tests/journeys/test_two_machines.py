"""Whole trips in real processes: an SDK client, `bascule bridge`, `bascule serve`, real commands."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import psutil
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from bascule.store.sqlite import read_entries
from kit.journey import PATIENCE, controller, run, set_up, start
from kit.proxy import reverse_proxy
from kit.ssh import forwarded_port
from kit.until import until

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])


def bridge_of(machine, url, **env):
    """What a client's configuration would start: the bridge, with the token in the server's own env block."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "bascule", "bridge", "--url", url],
        env={"BASCULE_TOKEN": machine.token, **env},
    )


@asynccontextmanager
async def agent(machine, url, mode):
    async with asyncio.timeout(4 * PATIENCE):
        async with Client(bridge_of(machine, url), mode=mode) as client:
            yield client


async def visit(client, machine):
    """One agent's ordinary work, checked at every step."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert {"device_info", "device_status", "system_which", "say", "touch"} <= set(names)
    assert "secret" not in names
    info = await client.call_tool("device_info", {})
    assert not info.is_error
    assert info.structured_content
    said = await client.call_tool("say", {"text": "-grüße \u2028 \U0001f600"})
    assert said.structured_content["stdout"] == "-grüße \u2028 \U0001f600"
    assert json.loads(said.content[0].text) == said.structured_content
    unknown = await client.call_tool("secret", {})
    assert unknown.is_error
    assert unknown.content[0].text == "Unknown tool: secret"
    wrong = await client.call_tool("nap", {"seconds": "ten"})
    assert wrong.is_error
    assert "/seconds" in wrong.content[0].text
    refused = await client.call_tool("touch", {"name": "made"})
    assert refused.is_error
    assert not (machine.work / "made").exists()
    done = await client.call_tool("touch", {"name": "made", "confirm": True})
    assert not done.is_error
    assert (machine.work / "made").exists()
    pending = await client.call_tool("wipe", {"name": "made"})
    assert pending.is_error
    assert (machine.work / "made").exists()
    (machine.work / "made").unlink()


@ERAS
async def test_an_agent_of_any_era_works_through_the_bridge_directly(tmp_path, mode):
    machine = await set_up(tmp_path)
    async with controller(machine) as up:
        async with agent(machine, up.url, mode) as client:
            await visit(client, machine)
        assert await up.stop() == 0
    assert up.said == b"", "a healthy controller writes nothing else to stderr"


@ERAS
async def test_an_agent_works_through_a_forwarded_port(tmp_path, mode):
    machine = await set_up(tmp_path)
    async with (
        controller(machine) as up,
        forwarded_port(up.port, tmp_path) as port,
        agent(machine, f"http://127.0.0.1:{port}", mode) as client,
    ):
        await visit(client, machine)


@ERAS
async def test_an_agent_works_behind_a_reverse_proxy_that_keeps_host_and_strips_a_mount(tmp_path, mode):
    machine = await set_up(tmp_path)
    async with (
        controller(machine) as up,
        reverse_proxy(up.port, mount="/machine") as port,
        agent(machine, f"http://localhost:{port}/machine/mcp", mode) as client,
    ):
        await visit(client, machine)


async def test_a_proxied_name_that_no_setting_allows_is_refused_and_the_setting_named(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: gpu.example\r\nContent-Length: 0\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.read(4096)
        writer.close()
    assert head.startswith(b"HTTP/1.1 421")
    assert b"[controller] hosts" in body


def napping(seconds):
    return [p for p in psutil.process_iter(["cmdline", "status"]) if p.info["cmdline"] == ["sleep", str(seconds)]]


@pytest.mark.parametrize(("mode", "seconds"), [("legacy", 4701), ("2026-07-28", 4702)])
async def test_a_cancelled_call_ends_the_process_on_the_controller(tmp_path, mode, seconds):
    machine = await set_up(tmp_path)
    async with controller(machine) as up, agent(machine, up.url, mode) as client:
        call = asyncio.create_task(client.call_tool("nap", {"seconds": seconds}))
        await until(lambda: napping(seconds))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: not napping(seconds))


async def test_a_killed_bridge_ends_the_process_on_the_controller(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up:
        bridge = await start(machine, "bridge", "--url", up.url, "--token-file", str(machine.token_file))
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "nap", "arguments": {"seconds": 4703}, "_meta": meta}
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + "\n"
        bridge.stdin.write(line.encode())
        await until(lambda: napping(4703))
        bridge.kill()
        await bridge.communicate()
        await until(lambda: not napping(4703))


async def test_a_stopped_controller_leaves_no_child_behind(tmp_path):
    machine = await set_up(tmp_path, (await settings_with_short_drain()))
    async with controller(machine) as up, agent(machine, up.url, "2026-07-28") as client:
        call = asyncio.create_task(client.call_tool("nap", {"seconds": 4704}))
        await until(lambda: napping(4704))
        assert await up.stop() == 0
        assert not napping(4704)
        result = await call
        assert result.is_error
    last = read_entries(tmp_path / "state" / "bascule.sqlite3", limit=1)[0]
    assert (last["operation"], last["cause"], last["delivered"]) == ("nap", "shutdown", "yes"), "the record closes last"


async def settings_with_short_drain():
    from kit.journey import SETTINGS

    return SETTINGS.replace("port = 0", 'port = 0\ndrain = "2s"')


async def test_a_controller_that_is_down_is_named_and_work_goes_on_by_itself_when_it_is_back(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up:
        url, port = up.url, up.port
    async with agent(machine, url, "legacy") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["bascule_status"]
        down = await client.call_tool("say", {"text": "x"})
        assert down.is_error
        assert "bascule serve" in down.content[0].text
        async with controller(machine, "--port", str(port)):
            back = await client.call_tool("say", {"text": "back"})
            assert not back.is_error
            assert back.structured_content["stdout"] == "back"


async def test_a_wrong_token_another_version_and_a_missing_variable_are_each_named(tmp_path):
    machine = await set_up(tmp_path)
    wrong = "bsc_owner_" + "x" * 43
    async with controller(machine) as up:
        for env, args, words in [
            ({"BASCULE_TOKEN": wrong}, (), "token"),
            ({"BASCULE_TOKEN": machine.token}, ("--expect", "other-box@9.9.9"), "9.9.9"),
            ({"BASCULE_TOKEN": "${BASCULE_TOKEN}"}, (), "BASCULE_TOKEN"),
            ({}, (), "BASCULE_TOKEN"),
        ]:
            params = StdioServerParameters(
                command=sys.executable, args=["-m", "bascule", "bridge", "--url", up.url, *args], env=env
            )
            async with asyncio.timeout(PATIENCE), Client(params, mode="legacy") as client:
                result = await client.call_tool("device_info", {})
                assert result.is_error
                assert words in result.content[0].text, (env.keys(), args, result.content[0].text)
                assert wrong not in result.content[0].text


async def test_output_over_its_cap_is_cut_with_its_true_size_and_bad_ends_are_said(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up, agent(machine, up.url, "2026-07-28") as client:
        flood = await client.call_tool("flood", {})
        assert not flood.is_error
        assert flood.structured_content["truncated"] is True
        assert "3000000" in flood.structured_content["stdout"]
        broken = await client.call_tool("broken", {})
        assert broken.is_error
        assert "1" in broken.content[0].text
        missing = await client.call_tool("missing", {})
        assert missing.is_error
        assert "no-such-program-anywhere" in missing.content[0].text


async def test_tools_and_call_speak_json_and_the_documented_exit_codes(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up:
        where = ("--url", up.url, "--token-file", str(machine.token_file))
        code, out, err = await run(machine, "tools", *where, "--json")
        assert (code, err) == (0, "")
        assert "device_info" in out
        json.loads(out)
        for arguments, expected in [
            (("say", "--args", '{"text":"hi"}'), 0),
            (("device.info",), 0),
            (("broken",), 1),
            (("say", "--args", "not json"), 2),
            (("secret",), 3),
            (("touch", "--args", '{"name":"x"}'), 3),
            (("touch", "--args", '{"name":"x"}', "--dry-run"), 0),
            (("touch", "--args", '{"name":"x"}', "--confirm"), 0),
            (("wipe", "--args", '{"name":"x"}'), 3),
        ]:
            code, out, err = await run(machine, "call", *arguments, *where, "--json")
            assert code == expected, (arguments, code, out, err)
    code, out, err = await run(machine, "call", "device.info", *where, "--json")
    assert code == 4, (out, err)
    assert "bascule serve" in err + out


async def test_the_token_never_reaches_an_argument_list_or_any_output(tmp_path):
    machine = await set_up(tmp_path)
    async with controller(machine) as up:
        bridge = await start(machine, "bridge", "--url", up.url, env=machine.environment(BASCULE_TOKEN=machine.token))
        bridge.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
        async with asyncio.timeout(PATIENCE):
            await bridge.stdout.readline()
        lines = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
        assert not any(machine.token in line for line in lines)
        bridge.stdin.close()
        async with asyncio.timeout(PATIENCE):
            out, err = await bridge.communicate()
        assert machine.token.encode() not in out + err
        assert await up.stop() == 0
    assert machine.token.encode() not in up.said
    for path in (tmp_path / "state").rglob("*"):
        if path.is_file():
            assert machine.token.encode() not in path.read_bytes(), path
