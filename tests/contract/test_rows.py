"""Rows of docs/features that hold for some arrangements only, each by its name, over those arrangements."""

import asyncio
import json
import logging

import pytest

from bascule import __version__
from bascule.capabilities import plugins
from bascule.capabilities.declared import Declared, DeclaredCommand
from bascule.node.terms import Effect
from bascule.protocol.addresses import UrlError, read_url
from bascule.protocol.expectation import parse
from bascule.protocol.remote import STATUS, RemoteNode
from kit.arrangements import ARRANGEMENTS, CALLER, TOKEN, arranged, served_on_http
from kit.doubles import KeptBack, invocation
from kit.http import request, wire
from kit.journey import PATIENCE
from kit.peers import LinePeer, ask, call, shake_hands, words
from kit.until import until
from kit.upstream import ECHO, upstream

pytestmark = pytest.mark.anyio

PIPES = [kind for kind in ARRANGEMENTS if kind.startswith(("stdio", "bridged"))]
BRIDGED = [kind for kind in ARRANGEMENTS if kind.startswith("bridged")]


def over(kinds):
    return pytest.mark.parametrize("kind", kinds)


async def until_listed(there, name):
    async with asyncio.timeout(PATIENCE):
        while name not in [t["name"] for t in (await ask(there.peer, "tools/list"))["result"]["tools"]]:  # noqa: ASYNC110 - the other side has no event
            await asyncio.sleep(0.01)


@over(ARRANGEMENTS)
async def test_a5_a_declared_command_runs_typed_capped_and_as_its_plan_said(tmp_path, kind):
    commands = [
        DeclaredCommand(
            "more.say", "x", ("printf", "%s", "--", "{text}"), Effect.READ, arguments={"text": {"type": "string"}}
        ),
        DeclaredCommand(
            "more.make",
            "x",
            ("touch", "--", "{name}"),
            Effect.WRITE,
            arguments={"name": {"type": "string"}},
            cwd=tmp_path,
        ),
        DeclaredCommand("more.flood", "x", ("head", "-c", "200000", "/dev/zero"), Effect.READ, output_cap=1000),
    ]
    async with arranged(kind, tmp_path) as there:
        there.registry.add(Declared(commands, environ={"PATH": "/usr/bin:/bin"}))
        await until_listed(there, "more_make")
        said = await call(there.peer, "more_say", {"text": "a b; $(c) ü"})
        assert said["structuredContent"]["stdout"].endswith("a b; $(c) ü")
        preview = await call(there.peer, "more_make", {"name": "made", "dry_run": True})
        assert preview["structuredContent"]["plan"]["command"] == ["touch", "--", "made"]
        assert not (tmp_path / "made").exists()
        assert not (await call(there.peer, "more_make", {"name": "made", "confirm": True}))["isError"]
        assert (tmp_path / "made").exists()
        flood = (await call(there.peer, "more_flood", {}))["structuredContent"]
        assert flood["truncated"] is True
        assert "of 200000 bytes shown]" in flood["stdout"]


@over(ARRANGEMENTS)
async def test_a6_a_plug_in_of_another_distribution_is_called_like_any_other(tmp_path, kind, monkeypatch):
    from pathlib import Path

    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "bascule-plugin-uptime" / "src")
    info = tmp_path / "bascule_plugin_uptime-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bascule-plugin-uptime\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bascule.capabilities]\nmore = bascule_plugin_uptime:Uptime\n")
    monkeypatch.syspath_prepend(tmp_path)
    (plugin,) = plugins.load(["more"])
    async with arranged(kind, tmp_path, allow=("uptime.get",)) as there:
        there.registry.add(plugin)
        await until_listed(there, "uptime_get")
        assert (await call(there.peer, "uptime_get", {}))["structuredContent"]["seconds"] > 0


async def test_b1_every_opening_but_2026_07_28_is_refused_by_name_and_no_session_is_made(tmp_path):
    async with served_on_http() as (port, _):
        for version in (None, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            params = {
                "protocolVersion": version or "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            }
            body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": params}).encode()
            more = {} if version is None else {"mcp_protocol_version": version}
            async with wire(port) as line:
                await line.say(request(body=body, **more))
                answer = await line.hear()
            assert (answer.status, answer.error["code"], answer.json()["id"]) == (400, -32022, 5)
            assert answer.error["data"]["supported"] == ["2026-07-28"]
            assert "mcp-session-id" not in answer.headers
        for method in ("GET", "DELETE"):
            async with wire(port) as line:
                await line.say(request(method=method, body=b""))
                assert (await line.hear()).status == 405


@over(["memory-initialize", "stdio-initialize", "bridged-initialize"])
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_c1_each_initialize_revision_is_spoken_as_asked(tmp_path, kind, version):
    async with arranged(kind, tmp_path, version=version) as there:
        assert words(await call(there.peer, "echo", {"text": version})) == version


@over(["memory-modern", "stdio-modern", "http-modern", "bridged-modern"])
async def test_c1_the_newest_revision_needs_no_handshake(tmp_path, kind):
    async with arranged(kind, tmp_path) as there:
        assert (await ask(there.peer, "server/discover"))["result"]["supportedVersions"] == ["2026-07-28"]
        assert words(await call(there.peer, "echo", {"text": "x"})) == "x"


@over([kind for kind in PIPES if kind.endswith("initialize")])
async def test_c1_an_unavailable_version_is_refused_and_another_may_follow(tmp_path, kind):
    async with arranged(kind, tmp_path, version=None) as there:
        hello = {"protocolVersion": "2099-01-01", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        error = (await ask(there.peer, "initialize", hello))["error"]
        assert error == {
            "code": -32022,
            "message": "Protocol version '2099-01-01' is not available through the initialize handshake.",
            "data": {"supported": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"], "requested": "2099-01-01"},
        }
        assert isinstance(there.peer, LinePeer)
        await shake_hands(there.peer)
        assert words(await call(there.peer, "echo", {"text": "x"})) == "x"


async def test_c2_the_bridge_is_pinned_takes_no_ambient_proxy_and_follows_no_redirect(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    elsewhere = b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:9/mcp\r\ncontent-length: 0\r\n\r\n"
    async with (
        upstream() as up,
        RemoteNode(read_url(up.url), token=lambda: "good", expectation=parse(["up-box@*"])) as node,
    ):
        assert (await node.invoke(invocation("echo", {"text": "x"}), KeptBack())).payload["content"]
        assert {fields["mcp-protocol-version"] for fields, _ in up.heard} == {"2026-07-28"}
        up.raw = lambda _body: elsewhere
        answer = await node.invoke(invocation("echo", {"text": "x"}), KeptBack())
        assert "edirect" in answer.message


async def test_c3_another_name_or_version_is_refused_before_any_effect():
    async with upstream() as up:
        for expected in ("other@1.0.0", "up-box@1.0.1", "up-box@>=2"):
            async with RemoteNode(read_url(up.url), token=lambda: "good", expectation=parse([expected])) as node:
                answer = await node.invoke(invocation("change", {"text": "x"}), KeptBack())
                assert "up-box@1.0.0" in answer.message
        assert up.calls == []


@over(["http-modern"])
async def test_c3_the_expectation_that_travels_is_refused_by_the_controller_itself(tmp_path, kind):
    async with arranged(kind, tmp_path) as there:
        for wanted in (["other@*"], ["contract-box@9"], ["contract-box@>=9"], "contract-box", [], [3], ["a@>=x"]):
            result = await call(there.peer, "change", {"text": "x", "confirm": True}, **{"bascule/expect": wanted})
            assert result["isError"] is True
            assert result["_meta"]["bascule/category"] in ("conflict", "invalid_request")
        assert there.work.calls == []
        for wanted in ([f"contract-box@{__version__}"], ["other@1", "*@*"]):
            assert not (await call(there.peer, "echo", {"text": "x"}, **{"bascule/expect": wanted}))["isError"]


@over(BRIDGED)
async def test_c4_the_callers_catalogue_is_offered_and_no_other(tmp_path, kind):
    async with arranged(kind, tmp_path) as there:
        listed = [tool["name"] for tool in (await ask(there.peer, "tools/list"))["result"]["tools"]]
        assert listed == ["echo", "wait", "change", "destroy", "crash", "report"]


async def test_c4_one_bad_definition_is_set_aside_and_the_rest_works():
    async with (
        upstream(tools=[{"name": "bad", "inputSchema": {"type": "array"}}, ECHO]) as up,
        RemoteNode(read_url(up.url), token=lambda: "good", expectation=parse(["*@*"])) as node,
    ):
        offer = await node.offered_to(CALLER)
        assert [operation.name for operation in offer.operations] == ["echo"]
        assert [name for name, _ in offer.set_aside] == ["bad"]


@over(BRIDGED)
async def test_c5_arguments_that_do_not_fit_never_leave_the_bridge(tmp_path, kind):
    async with arranged(kind, tmp_path) as there:
        result = await call(there.peer, "echo", {"text": 1})
        assert result["isError"] is True
        assert "/text" in words(result)
        assert there.record.opened == [], "the controller never heard of it"


@over(BRIDGED)
async def test_c6_the_token_is_in_no_answer_and_no_log(tmp_path, kind, caplog):
    caplog.set_level(logging.DEBUG)
    async with arranged(kind, tmp_path) as there:
        answers = [await call(there.peer, name, {"text": "x"}) for name in ("echo", "crash", "no.such", "change")]
    assert TOKEN not in json.dumps(answers) + repr(there.record.opened)
    assert f"Bearer {TOKEN}" not in caplog.text


def test_c7_an_address_is_absolute_plain_and_without_secrets():
    for text in ("mcp", "ftp://x/", "http://u:p@x/", "http://x/?token=1", "http://x/#a"):
        with pytest.raises(UrlError):
            read_url(text)
    assert read_url("http://127.0.0.1:1").url.endswith("/mcp")


async def test_c7_an_address_that_is_neither_loopback_nor_private_is_never_connected_to():
    async with RemoteNode(read_url("http://203.0.113.5/mcp"), token=lambda: "good", expectation=parse([])) as node:
        answer = await node.invoke(invocation("echo", {"text": "x"}), KeptBack())
        assert "neither loopback nor private" in answer.message
        assert [operation.name for operation in (await node.offered_to(CALLER)).operations] == [STATUS]


@over(PIPES)
async def test_c13_a_malformed_line_is_answered_and_the_session_goes_on(tmp_path, kind):
    async with arranged(kind, tmp_path) as there:
        assert isinstance(there.peer, LinePeer)
        heard = []
        original = there.peer.heard
        there.peer.heard = lambda data: (
            heard.append(json.loads(data)),
            original(data) if json.loads(data).get("id") else None,
        )
        await there.peer.write(b"{not json\n[]\n")
        await until(lambda: len(heard) == 2)
        assert [message["error"]["code"] for message in heard] == [-32700, -32600]
        assert words(await call(there.peer, "echo", {"text": "x"})) == "x"
