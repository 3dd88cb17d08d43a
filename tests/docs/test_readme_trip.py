"""What the README's five minutes promise, done step by step with real programs, on one machine that plays both."""

import asyncio
import json
import os
import re
import shlex
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from kit.docs import document
from kit.journey import PATIENCE, Machine, controller, run

pytestmark = pytest.mark.anyio

README = document("README.md")


class Home(Machine):
    """A machine with nothing but a home folder: every place is the platform's own."""

    @property
    def config(self) -> Path:
        return self.home / ".config" / "bascule" / "bascule.toml"

    @property
    def token_file(self) -> Path:
        return self.config.parent / "credentials" / "owner"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("BASCULE_", "XDG_"))}
        return kept | {"HOME": str(self.home), "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}"} | more


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return Home(tmp_path)


def shown(beginning):
    """The one command of the README that begins so, without its comment."""
    lines = [line for block in README.blocks("") for line in block.splitlines()] + README.code()
    (line,) = [line for line in lines if line.startswith(beginning)]
    return shlex.split(line.split(" #")[0])[1:]


def at(url, words):
    return [url.removesuffix("/mcp") if word == "http://127.0.0.1:8765" else word for word in words]


async def listed(entry, token):
    """The names an agent sees that is started with `entry` of a client's file and has `token` in its environment."""
    env = {name: value.replace("${BASCULE_TOKEN}", token) for name, value in entry["env"].items()}
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=env)
    async with asyncio.timeout(PATIENCE), Client(server, mode="legacy") as client:
        return [tool.name for tool in (await client.list_tools()).tools]


async def test_five_minutes_lead_an_agent_to_the_three_tools_the_readme_names(home):
    code, said, _ = await run(home, *shown("bascule init"))
    assert code == 0
    assert all(name in said for name in ("bascule.toml", "callers.toml", "credentials/owner"))
    async with controller(home, "--port", "0") as up:
        env = home.environment(BASCULE_TOKEN=home.token)
        for words in (shown("bascule doctor"), shown("bascule connect")):
            code, out, err = await run(home, *at(up.url, words), env=env)
            assert code == 0, (words, out, err)
        written = (home.home / "project" / ".mcp.json").read_text()
        assert home.token not in written
        (entry,) = json.loads(written)["mcpServers"].values()
        promised = re.findall(r"`(\w+_\w+)`", re.search(r"The agent now lists (.+)\.", README.text)[1])
        assert await listed(entry, home.token) == promised
        assert await up.stop() == 0
    assert up.said == b""


async def test_the_readmes_own_operation_shows_its_plan_and_is_done_when_confirmed(home):
    await run(home, "init")
    (settings,) = README.blocks("toml")
    home.config.write_text(settings)
    program, log = home.home / "bin" / "systemctl", home.home / "done"
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    program.chmod(0o755)
    async with controller(home, "--port", "0") as up:
        preview = [*shown("bascule call"), "--url", up.url, "--token-file", str(home.token_file)]
        code, out, err = await run(home, *preview)
        assert code == 0, (out, err)
        assert "restart" in out
        assert not log.exists(), "a dry run does nothing"
        plain = [word for word in preview if word != "--dry-run"]
        assert (await run(home, *plain))[0] == 3, "a write that is not confirmed is refused"
        assert (await run(home, *plain, "--confirm"))[0] == 0
        assert log.read_text() == "restart vllm\n"
