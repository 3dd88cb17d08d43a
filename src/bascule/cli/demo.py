"""`bascule demo`: a real controller, a real bridge, and two agents of two eras, shown step by step.

The agents' conversations are left to `demo_agents`; nothing of the person's own configuration is read or written.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bascule.cli.demo_agents import Agent, InitializeEraAgent, ModernAgent, text_of

SETTINGS: Final = """\
# The settings of the demo: what agents may do on this machine, and nothing else exists for them.
[controller]
name = "demo-box"
host = "127.0.0.1"
port = 0

[policy]
allow = ["device.*", "system.which", "folder.*", "nap"]

[operations."folder.make"]
description = "Make a folder in the demo's own directory"
command = ["mkdir", "--", "{name}"]
cwd = "@WORK@"
effect = "write"
[operations."folder.make".arguments.name]
type = "string"
pattern = "^[a-z]{1,20}$"

[operations."folder.wipe"]
description = "Delete a folder in the demo's own directory"
command = ["rm", "-r", "--", "{name}"]
cwd = "@WORK@"
effect = "destructive"
[operations."folder.wipe".arguments.name]
type = "string"
pattern = "^[a-z]{1,20}$"

[operations."nap"]
description = "Sleep for a while"
command = ["sleep", "{seconds}"]
effect = "read"
[operations."nap".arguments.seconds]
type = "integer"
minimum = 1
maximum = 600

[operations."not.allowed"]
description = "Declared, but on nobody's list"
command = ["true"]
effect = "read"
"""

PATIENCE: Final = 30.0
"""Seconds any single step may take before the demo says that it failed."""


class DemoFailedError(Exception):
    """A step of the demo did not end as it must."""


@dataclass(slots=True)
class Stage:
    """Where the demo happens and what it says while doing so."""

    home: Path
    failures: list[str] = field(default_factory=list)

    @property
    def work(self) -> Path:
        return self.home / "work"

    def say(self, text: str) -> None:
        print(text, flush=True)

    def title(self, text: str) -> None:
        bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
        self.say(f"\n{bold}{text}{plain}")

    def step(self, what: str, answer: str, *, holds: bool) -> None:
        mark = "ok  " if holds else "FAIL"
        first, *rest = (answer.strip() or "(nothing)").splitlines()
        self.say(f"  {mark} {what}\n         {first[:150]}{' ...' if rest or len(first) > 150 else ''}")
        if not holds:
            self.failures.append(f"{what}: {answer.strip()[:2000]}")


def run() -> int:
    """Run the demo; return 0 when every step ended as it must, else 1."""
    with tempfile.TemporaryDirectory(prefix="bascule-demo-") as folder:
        stage = Stage(Path(folder))
        try:
            asyncio.run(_play(stage))
        except (DemoFailedError, TimeoutError, OSError) as error:
            stage.failures.append(str(error) or type(error).__name__)
        if stage.failures:
            print("\ndemo failed:\n  " + "\n  ".join(stage.failures), file=sys.stderr)
            return 1
        stage.say("\nEverything above ran for real on this machine and is gone now. Next: bascule init")
        return 0


async def _play(stage: Stage) -> None:
    stage.say("Bascule: AI agents operate your machines, on your terms.")
    await _prepare(stage)
    async with _controller(stage) as url:
        stage.title(f"1. A controller listens on {url} (MCP 2026-07-28, token on every request)")
        stage.say("     allowed: device.*, system.which, folder.*, nap")
        stage.title("2. An agent of the initialize era (2025-11-25, as OpenClaw speaks it) through the bridge")
        async with _bridge(stage, url) as pipes:
            await _visit(stage, InitializeEraAgent(*pipes), "older")
        stage.title("3. An agent of 2026-07-28 through the same bridge program")
        async with _bridge(stage, url) as pipes:
            await _visit(stage, ModernAgent(*pipes), "newer")
    stage.title("4. What the controller wrote down, before and after each of them")
    await _show_record(stage)


async def _prepare(stage: Stage) -> None:
    stage.work.mkdir()
    await _bascule(stage, "init", "--dir", str(stage.home / "config"))
    settings = stage.home / "config" / "bascule.toml"
    settings.write_text(SETTINGS.replace("@WORK@", str(stage.work)), encoding="utf-8")


def _environment(stage: Stage) -> dict[str, str]:
    # No ambient BASCULE_* setting may reach the demo's programs.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("BASCULE_")}
    return ours | {
        "BASCULE_CONFIG": str(stage.home / "config" / "bascule.toml"),
        "BASCULE_STATE": str(stage.home / "state"),
    }


async def _spawn(
    stage: Stage, *arguments: str, stdin: int, stdout: int, stderr: int | None
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bascule", *arguments,
        stdin=stdin, stdout=stdout, stderr=stderr, env=_environment(stage), limit=16 * 1024 * 1024,
    )  # fmt: skip


async def _bascule(stage: Stage, *arguments: str) -> str:
    devnull, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await _spawn(stage, *arguments, stdin=devnull, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    if process.returncode != 0:
        raise DemoFailedError(f"bascule {arguments[0]} ended with {process.returncode}: {err.decode()}")
    return out.decode()


@asynccontextmanager
async def _controller(stage: Stage) -> AsyncIterator[str]:
    devnull, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await _spawn(stage, "serve", stdin=devnull, stdout=devnull, stderr=pipe)
    try:
        if process.stderr is None:
            raise DemoFailedError("the controller has no stderr")
        async with asyncio.timeout(PATIENCE):
            line = (await process.stderr.readline()).decode().strip()
        if "listening on" not in line:
            rest = (await process.stderr.read()).decode()
            raise DemoFailedError(f"the controller did not start: {line} {rest}")
        yield line.rpartition(" ")[2]
    finally:
        await _end(process)


@asynccontextmanager
async def _bridge(stage: Stage, url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    pipe = asyncio.subprocess.PIPE
    token = str(stage.home / "config" / "credentials" / "owner")
    process = await _spawn(stage, "bridge", "--url", url, "--token-file", token, stdin=pipe, stdout=pipe, stderr=None)
    try:
        if process.stdout is None or process.stdin is None:
            raise DemoFailedError("the bridge has no pipes")
        yield process.stdout, process.stdin
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            code = await process.wait()
        stage.step("the agent hangs up; the bridge ends by itself", f"exit code {code}", holds=code == 0)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(PATIENCE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _visit(stage: Stage, agent: Agent, folder: str) -> None:
    async with asyncio.timeout(4 * PATIENCE):
        await _look_around(stage, agent)
        await _change_something(stage, agent, folder)
        await _stop_something(stage, agent)


async def _look_around(stage: Stage, agent: Agent) -> None:
    stage.step("opens the conversation", await agent.open(), holds=True)
    tools = await agent.tools()
    stage.step("lists its tools", ", ".join(tools), holds="device_info" in tools and "not_allowed" not in tools)
    info = await agent.call("device_info", {})
    stage.step("asks what machine this is", text_of(info), holds=info.get("isError") is not True)
    hidden = await agent.call("not_allowed", {})
    stage.step("tries what nobody allowed", text_of(hidden), holds="Unknown tool" in text_of(hidden))
    wrong = await agent.call("nap", {"seconds": "ten"})
    stage.step("sends an argument of the wrong type", text_of(wrong), holds=wrong.get("isError") is True)


async def _change_something(stage: Stage, agent: Agent, folder: str) -> None:
    made = stage.work / folder
    refused = await agent.call("folder_make", {"name": folder})
    stage.step(
        "wants a change without confirming",
        text_of(refused),
        holds=refused.get("isError") is True and not made.exists(),
    )
    plan = await agent.call("folder_make", {"name": folder, "dry_run": True})
    stage.step("asks what would happen", text_of(plan), holds=plan.get("isError") is not True and not made.exists())
    done = await agent.call("folder_make", {"name": folder, "confirm": True})
    stage.step("confirms, and it happens", text_of(done), holds=done.get("isError") is not True and made.is_dir())
    wiped = await agent.call("folder_wipe", {"name": folder})
    stage.step(
        "wants to destroy: a person must say yes", text_of(wiped), holds=wiped.get("isError") is True and made.is_dir()
    )


async def _stop_something(stage: Stage, agent: Agent) -> None:
    seconds = 500 + (os.getpid() % 90)
    started = await agent.start("nap", {"seconds": seconds})
    await _until(lambda: _naps(seconds) > 0)
    await agent.cancel(started)
    await _until(lambda: _naps(seconds) == 0)
    stage.step("starts a long command, then cancels it", "the process on the controller is gone", holds=True)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - another process has no event to give
            await asyncio.sleep(0.02)


def _naps(seconds: int) -> int:
    import psutil

    wanted = ["sleep", str(seconds)]
    return sum(1 for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == wanted)


async def _show_record(stage: Stage) -> None:
    from bascule.assembly import controller

    entries = await controller.recent_record(stage.home / "state", limit=40)
    for entry in entries:
        stage.say("     " + entry)
    stage.step("every call is in the record", f"{len(entries)} entries", holds=len(entries) == 12)
