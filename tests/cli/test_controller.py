"""Commands against a controller that is up, down, or somebody else; real processes, real sockets, the documented codes."""

import asyncio
import json
import os
import pty
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from kit.journey import PATIENCE, controller, run, set_up, start

pytestmark = pytest.mark.anyio


@pytest.fixture
async def machine(tmp_path):
    """One machine with the settings of the journeys, on a port that was free a moment ago."""
    return await made_in(tmp_path / "machine")


@pytest.fixture(scope="module")
async def serving(tmp_path_factory):
    """One more, whose controller is up for all tests that change nothing another could see."""
    made = await made_in(tmp_path_factory.mktemp("serving") / "machine")
    async with controller(made):
        yield made


async def made_in(folder):
    made = await set_up(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made.config.write_text(made.config.read_text().replace("port = 0", f"port = {port}"))
    return made


@asynccontextmanager
async def relay(port, *, host="127.0.0.1", cut=None):
    """Forward TCP to 127.0.0.1:`port`; an answer to a request that holds `cut` never arrives. Gives the relay's port."""

    async def pump(reader, writer, seen=None):
        try:
            while data := await reader.read(65_536):
                if seen is not None and cut is not None and cut in data:
                    seen.set()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def serve(reader, writer):
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        lost = asyncio.Event()
        forward = asyncio.create_task(pump(reader, up_writer, lost))
        while data := await up_reader.read(65_536):
            if lost.is_set():
                break
            writer.write(data)
        up_writer.close()
        writer.close()
        await forward

    server = await asyncio.start_server(serve, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_serve_says_exactly_one_line_when_ready_and_ends_well_on_a_signal(machine):
    async with controller(machine, "--port", "0") as up:
        assert up.url.startswith("http://127.0.0.1:")
        assert up.url.endswith("/mcp")
        assert up.port != 0
        assert await up.stop() == 0
    assert up.said == b""


@pytest.mark.parametrize(("host", "shown"), [("::1", "[::1]"), ("localhost", "localhost")])
async def test_serve_listens_on_the_other_names_of_loopback(machine, host, shown):
    async with controller(machine, "--host", host, "--port", "0") as up:
        assert up.url == f"http://{shown}:{up.port}/mcp"
        code, out, err = await run(machine, "tools", "--url", up.url, "--token-file", str(machine.token_file))
        assert code == 0, (out, err)


async def test_a_taken_port_is_told_with_the_flag_that_picks_another(machine):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, out, err = await run(machine, "serve", "--port", str(taken.getsockname()[1]))
    assert code == 4
    assert "--port" in err
    assert out == ""


async def test_a_state_folder_that_cannot_be_used_is_named(machine, tmp_path):
    (tmp_path / "file").write_text("")
    env = machine.environment(BASCULE_STATE=str(tmp_path / "file" / "state"))
    code, _, err = await run(machine, "serve", env=env)
    assert code == 1
    assert "BASCULE_STATE" in err
    assert str(tmp_path / "file") in err


async def test_a_state_folder_that_others_use_is_refused_and_left_as_it_is(machine, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "theirs").touch()
    code, _, err = await run(machine, "serve", env=machine.environment(BASCULE_STATE=str(shared)))
    assert code == 1
    assert f"chmod 700 {shared}" in err
    assert shared.stat().st_mode & 0o777 == 0o755


async def test_tools_and_call_need_no_options_on_the_controllers_own_machine(serving):
    code, out, err = await run(serving, "tools", "--json")
    assert (code, err) == (0, "")
    assert {"device_info", "touch"} <= {tool["name"] for tool in json.loads(out)}
    code, out, err = await run(serving, "tools")
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("touch")] == [["touch", "write"]]
    code, out, err = await run(serving, "call", "device.info", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["structuredContent"]["cpuCount"] == os.cpu_count()


async def test_the_owners_file_counts_before_a_variable_that_may_be_another_machines(machine):
    env = machine.environment(BASCULE_TOKEN=f"bsc_other_{'x' * 43}")
    async with controller(machine):
        assert (await run(machine, "tools", env=env))[0] == 0
        named = await run(machine, "tools", "--token-env", "BASCULE_TOKEN", env=env)
        assert named[0] == 4
        machine.token_file.rename(machine.home / "moved")
        assert (await run(machine, "tools", env=env))[0] == 4
        right = machine.environment(BASCULE_TOKEN=(machine.home / "moved").read_text().strip())
        assert (await run(machine, "tools", env=right))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["say", "--args", '{"text": "hello"}'], 0, "hello"),
        (["device_info"], 0, "cpuCount"),
        (["touch", "--args", '{"name": "a"}', "--dry-run"], 0, "touch"),
        (["touch", "--args", '{"name": "a"}', "--confirm"], 0, "exitCode"),
        (["broken"], 1, "exit code 1"),
        (["missing"], 1, "no-such-program-anywhere"),
        (["nap", "--args", '{"seconds": 60}', "--timeout", "0.3"], 1, "nap"),
        (["say", "--args", '{"text": 3}'], 2, "/text"),
        (["say", "--args", '{"text": "a", "more": 1}'], 2, "more"),
        (["secret"], 3, "Unknown tool: secret"),
        (["nothing.like.it"], 3, "Unknown tool"),
        (["wipe", "--args", '{"name": "a"}'], 3, "approv"),
        (["wipe", "--args", '{"name": "a"}', "--confirm"], 2, "confirm"),
        (["touch", "--args", '{"name": "a"}'], 3, "confirm"),
    ],
)
async def test_each_outcome_of_a_call_has_its_code_and_its_words(serving, arguments, code, words):
    got, out, err = await run(serving, "call", *arguments)
    assert got == code, (out, err)
    assert words in (out if code == 0 else err)
    assert (out == "") == (code != 0)


@pytest.mark.parametrize(("name", "code"), [("device.info", 0), ("broken", 1), ("secret", 3)])
async def test_a_call_printed_as_json_is_the_whole_result_whatever_its_code(serving, name, code):
    got, out, _ = await run(serving, "call", name, "--json")
    assert got == code
    assert json.loads(out).get("isError", False) == (code != 0)


async def test_a_preview_changes_nothing_and_a_confirmed_call_does(serving):
    await run(serving, "call", "touch", "--args", '{"name": "made"}', "--dry-run")
    assert not (serving.work / "made").exists()
    await run(serving, "call", "touch", "--args", '{"name": "made"}', "--confirm")
    assert (serving.work / "made").exists()


async def test_arguments_come_from_a_file_and_from_standard_input_too(serving, tmp_path):
    file = tmp_path / "arguments.json"
    file.write_text('{"text": "from a file"}')
    assert "from a file" in (await run(serving, "call", "say", "--args", f"@{file}"))[1]
    assert "from a pipe" in (await run(serving, "call", "say", "--args", "-", stdin=b'{"text": "from a pipe"}'))[1]


async def test_an_answer_lost_after_a_write_was_sent_is_an_unknown_outcome(machine):
    async with controller(machine) as up, relay(up.port, cut=b'"tools/call"') as port:
        to = ["--url", f"http://127.0.0.1:{port}", "--token-file", str(machine.token_file)]
        code, out, err = await run(machine, "call", "touch", "--args", '{"name": "a"}', "--confirm", *to)
        assert code == 5, (out, err)
        assert "may have been executed" in err
        code, out, err = await run(machine, "call", "device.info", *to)
        assert code == 4, (out, err)


@pytest.mark.parametrize("command", [["tools"], ["call", "device.info"]])
async def test_nobody_a_wrong_token_and_another_controller_are_each_named_with_code_4(machine, tmp_path, command):
    code, out, err = await run(machine, *command)
    assert (code, out) == (4, "")
    assert "bascule serve" in err
    wrong = tmp_path / "wrong"
    wrong.write_text(f"bsc_owner_{'x' * 43}")
    wrong.chmod(0o600)
    async with controller(machine):
        code, out, err = await run(machine, *command, "--token-file", str(wrong))
        assert (code, out) == (4, "")
        assert "refused the token" in err
        code, out, err = await run(machine, *command, "--expect", "another-box")
        assert (code, out) == (4, "")
        assert "journey-box" in err
        code, out, err = await run(machine, *command, "--expect", "journey-box@>=9")
        assert (code, out) == (4, "")
        assert "another version" in err
        assert (await run(machine, *command, "--expect", "journey-box@*"))[0] == 0


HOPS = [
    "settings", "operations", "callers", "modes", "bind", "address", "token", "port", "http", "host",
    "token accepted", "identity", "tools", "call",
]  # fmt: skip


async def walk(machine, *arguments):
    code, out, err = await run(machine, "doctor", "--json", *arguments)
    assert err == ""
    return code, json.loads(out)


async def test_the_doctor_walks_every_hop_of_a_healthy_controller(machine):
    async with controller(machine):
        code, findings = await walk(machine)
        assert code == 0
        assert [finding["hop"] for finding in findings if finding["hop"] != "system"] == HOPS
        assert all(finding["ok"] for finding in findings)
        code, out, _ = await run(machine, "doctor")
        assert code == 0
        assert "FAIL" not in out
        assert machine.token not in out


async def test_the_doctor_names_the_hop_to_a_controller_that_is_broken_and_the_fix(machine, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text(f"bsc_owner_{'x' * 43}")
    wrong.chmod(0o600)
    token = ["--token-file", str(machine.token_file)]
    async with controller(machine) as up, relay(up.port, host="127.0.0.2") as port:
        code, findings = await walk(machine, "--token-file", str(wrong))
        assert (code, findings[-1]["hop"]) == (4, "token accepted")
        assert "bascule token create" in findings[-1]["words"]
        code, findings = await walk(machine, "--expect", "another-box")
        assert (code, findings[-1]["hop"]) == (4, "identity")
        assert "journey-box" in findings[-1]["words"]
        code, findings = await walk(machine, "--url", f"http://127.0.0.2:{port}", *token)
        assert (code, findings[-1]["hop"]) == (4, "host")
        assert "`hosts` under [controller]" in findings[-1]["words"]
    code, findings = await walk(machine, "--url", up.url, *token)
    assert (code, findings[-1]["hop"]) == (4, "port")
    code, findings = await walk(machine, "--url", up.url, "--token-env", "NOT_SET_ANYWHERE")
    assert (code, findings[-1]["hop"]) == (2, "token")
    assert "NOT_SET_ANYWHERE" in findings[-1]["words"]


@pytest.mark.parametrize(
    ("answer", "hop"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "http"),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "host"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "host"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", "identity"),
    ],
)
async def test_the_doctor_knows_what_is_not_a_controller(machine, answer, hop):
    async def serve(reader, writer):
        await reader.read(1024)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        code, findings = await walk(machine, "--url", url, "--token-file", str(machine.token_file))
    assert (code, findings[-1]["hop"], findings[-1]["ok"]) == (4, hop, False)


INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"t","version":"0"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"device_info","arguments":{}}}\n'
)


async def entry_works(entry, folder, token):
    """Start what the client would start, in a folder that tries to shadow the product; return the call's result."""
    for name in ("bascule.py", "mcp.py", "typer.py"):
        (folder / name).write_text("raise SystemExit('shadowed')\n")
    env = {name: value.replace("${BASCULE_TOKEN}", token) for name, value in entry.get("env", {}).items()}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        entry["command"], *entry["args"], stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **env},
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(INITIALIZE)
    answers = [json.loads(line) for line in out.splitlines()]
    assert err == b""
    return next(answer["result"] for answer in answers if answer.get("id") == 2)


@pytest.mark.parametrize("client", ["claude-code", "claude-desktop"])
async def test_the_printed_entry_works_as_it_stands_in_any_folder_and_any_environment(machine, tmp_path, client):
    async with controller(machine):
        code, out, err = await run(machine, "connect", client)
        assert code == 0, err
        assert machine.token not in out + err
        entry = json.loads(out)["mcpServers"]["bascule"]
        assert entry["args"][-2:] == ["--expect", "journey-box"]
        (tmp_path / "project").mkdir()
        result = await entry_works(entry, tmp_path / "project", machine.token)
        assert not result.get("isError", False)
        assert "cpuCount" in result["content"][0]["text"]


async def test_connect_says_that_it_saw_nobody_and_then_expects_any_name(machine):
    code, out, err = await run(machine, "connect", "openclaw")
    assert code == 0
    assert "was not seen" in err
    assert "--expect" not in out
    code, out, err = await run(machine, "connect", "openclaw", "--expect", "box@>=1")
    assert "box@>=1" in json.loads(out)["mcp"]["servers"]["bascule"]["args"]


async def test_connect_uses_a_named_variable_or_file_on_both_sides(machine):
    code, out, _ = await run(machine, "connect", "cursor", "--token-env", "GPU_TOKEN", "--name", "gpu")
    entry = json.loads(out)["mcpServers"]["gpu"]
    assert code == 0
    assert entry["env"] == {"GPU_TOKEN": "${env:GPU_TOKEN}"}
    assert entry["args"][-2:] == ["--token-env", "GPU_TOKEN"]
    code, out, _ = await run(machine, "connect", "cursor", "--token-file", str(machine.token_file))
    entry = json.loads(out)["mcpServers"]["bascule"]
    assert code == 0
    assert "env" not in entry
    assert entry["args"][-2:] == ["--token-file", str(machine.token_file)]


async def test_the_hint_of_connect_sets_the_variable_without_showing_the_token(machine):
    _, out, err = await run(machine, "connect", "codex")
    line = next(line for line in err.splitlines() if "export" in line)
    command = line.partition(": ")[2] + '; printf %s "$BASCULE_TOKEN"'
    shell = await asyncio.create_subprocess_exec("sh", "-c", command, stdout=asyncio.subprocess.PIPE)
    assert (await shell.communicate())[0].decode() == machine.token
    assert machine.token not in out + err


async def test_connect_writes_into_the_clients_file_and_leaves_a_broken_one_alone(machine, tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text('{\n  // mine\n  "mcpServers": {}\n}\n')
    code, out, err = await run(machine, "connect", "cursor", "--write", "--file", str(file))
    assert (code, out) == (0, "")
    assert "// mine" in file.read_text()
    assert '"bascule"' in file.read_text()
    backup = err.partition("as it was: ")[2].splitlines()[0]
    with open(backup) as kept:  # noqa: ASYNC230 - a test may block for a file of one line
        assert kept.read() == '{\n  // mine\n  "mcpServers": {}\n}\n'
    code, out, err = await run(machine, "connect", "cursor", "--write", "--file", str(file))
    assert (code, "already" in err) == (0, True)
    file.write_text('{"mcpServers": {')
    code, out, err = await run(machine, "connect", "cursor", "--write", "--file", str(file))
    assert code == 1
    assert "left alone" in err
    assert "bascule" in json.loads(out)["mcpServers"]
    assert file.read_text() == '{"mcpServers": {'


async def at_a_terminal(machine, *arguments, **env):
    """Run a command whose standard input is a terminal; return (exit code, stderr)."""
    main, terminal = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bascule", *arguments, stdin=terminal,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=machine.environment(**env),
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
        assert out == b""
        return process.returncode, err.decode()
    finally:
        os.close(main)
        os.close(terminal)


@pytest.mark.parametrize(
    ("env", "words"),
    [({}, "not set"), ({"BASCULE_TOKEN": ""}, "empty"), ({"BASCULE_TOKEN": "${BASCULE_TOKEN}"}, "did not resolve it")],
)
async def test_a_person_who_starts_a_bridge_without_a_token_is_told_at_once(machine, env, words):
    code, err = await at_a_terminal(machine, "bridge", "--url", "http://127.0.0.1:1", **env)
    assert code == 2
    assert words in err
    assert "BASCULE_TOKEN" in err


async def test_under_an_agent_a_bridge_without_a_token_stays_up_and_says_it_in_each_call(machine):
    process = await start(machine, "bridge", "--url", "http://127.0.0.1:1")
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(INITIALIZE)
    result = next(answer["result"] for line in out.splitlines() if (answer := json.loads(line)).get("id") == 2)
    assert process.returncode == 0
    assert err == b""
    assert result["isError"] is True
    assert "BASCULE_TOKEN is not set" in result["content"][0]["text"]
