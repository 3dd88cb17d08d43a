"""Real processes for whole trips: a configured machine, its controller, and what an agent starts.

What a trip proves is left to the journeys; nothing here reads or writes outside the folder it is given.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 30.0
"""Seconds any step of a journey may take: far over what it needs, far under the test's own limit."""

SETTINGS = """\
[controller]
name = "journey-box"
host = "127.0.0.1"
port = 0

[policy]
allow = ["device.*", "system.which", "say", "nap", "touch", "wipe", "flood", "broken", "missing"]

[operations.say]
description = "Say it back"
command = ["printf", "%s", "{text}"]
effect = "read"
[operations.say.arguments.text]
type = "string"
may_start_with_dash = true

[operations.nap]
description = "Sleep for a while"
command = ["sleep", "{seconds}"]
effect = "read"
timeout = "5m"
[operations.nap.arguments.seconds]
type = "integer"
minimum = 1

[operations.touch]
description = "Make a file"
command = ["touch", "--", "{name}"]
cwd = "@WORK@"
effect = "write"
[operations.touch.arguments.name]
type = "string"
pattern = "^[a-z]{1,20}$"

[operations.wipe]
description = "Remove a file"
command = ["rm", "--", "{name}"]
cwd = "@WORK@"
effect = "destructive"
[operations.wipe.arguments.name]
type = "string"

[operations.flood]
description = "Say far too much"
command = ["head", "-c", "3000000", "/dev/zero"]
effect = "read"
output_cap = "64KiB"

[operations.broken]
description = "End badly"
command = ["false"]
effect = "read"

[operations.missing]
description = "Its program is not there"
command = ["no-such-program-anywhere"]
effect = "read"

[operations.secret]
description = "On nobody's list"
command = ["true"]
effect = "read"
"""


@dataclass(frozen=True)
class Machine:
    """One machine's folder: configuration, state, a place for files to appear."""

    home: Path

    @property
    def config(self) -> Path:
        return self.home / "config" / "bascule.toml"

    @property
    def token_file(self) -> Path:
        return self.home / "config" / "credentials" / "owner"

    @property
    def work(self) -> Path:
        return self.home / "work"

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("BASCULE_")}
        return kept | {"BASCULE_CONFIG": str(self.config), "BASCULE_STATE": str(self.home / "state")} | more


async def run(machine: Machine, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None):
    """Run one `bascule` command to its end; return (exit code, stdout, stderr)."""
    process = await start(machine, *arguments, env=env)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(stdin)
    return process.returncode, out.decode(), err.decode()


async def start(machine: Machine, *arguments: str, env: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
    """Start one `bascule` command with three pipes."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bascule", *arguments,
        stdin=pipe, stdout=pipe, stderr=pipe, env=env or machine.environment(), limit=32 * 1024 * 1024,
    )  # fmt: skip


async def set_up(home: Path, settings: str = SETTINGS) -> Machine:
    """`bascule init` in `home`, then the settings of the journey."""
    machine = Machine(home)
    machine.work.mkdir(parents=True)
    code, out, err = await run(machine, "init", "--dir", str(home / "config"))
    assert code == 0, (out, err)
    machine.config.write_text(settings.replace("@WORK@", str(machine.work)))
    return machine


@dataclass
class Controller:
    """A controller that is up."""

    process: asyncio.subprocess.Process
    url: str
    said: bytes = b""
    """What it wrote on stderr after its one line, known once it has ended."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(how)
        async with asyncio.timeout(PATIENCE):
            out, err = await self.process.communicate()
        self.said += out + err
        assert self.process.returncode is not None
        return self.process.returncode


@asynccontextmanager
async def controller(machine: Machine, *arguments: str) -> AsyncIterator[Controller]:
    """`bascule serve`, from its ready line until it has ended."""
    process = await start(machine, "serve", *arguments)
    up = None
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            line = (await process.stderr.readline()).decode()
        if "listening on" not in line:
            rest = await process.stderr.read()
            raise AssertionError(f"no ready line: {line!r} {rest.decode()!r}")
        up = Controller(process, line.strip().rpartition(" ")[2])
        yield up
    finally:
        if up is not None:
            await up.stop()
        elif process.returncode is None:
            process.kill()
            await process.communicate()
