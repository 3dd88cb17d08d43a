"""The import contracts hold, and each can fail: a breach planted in a copy is seen."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BREACHES = [
    ("who stands on whom", "node/terms.py", "import bascule.cli.exits"),
    ("only protocol imports the MCP SDK", "callers.py", "import mcp"),
    ("the node knows no MCP, HTTP or SQL", "node/local.py", "import sqlite3"),
    ("gates know neither protocol nor node", "gates/host.py", "import bascule.node.terms"),
    ("protocol knows neither gates nor what a machine can do", "protocol/server.py", "import bascule.gates.gate"),
    ("the store knows no MCP and no HTTP", "store/sqlite.py", "import uvicorn"),
    ("a decision is a pure function", "node/policy.py", "import time"),
    ("gates do not know each other", "gates/host.py", "import bascule.gates.origin"),
    ("settings are read by assembly and cli alone", "callers.py", "import bascule.settings"),
    ("only the command line starts what assembly puts together", "protocol/server.py", "import bascule.assembly.loop"),
    ("who stands on whom", "stray.py", '"""A module that no layer has."""'),
]


def lint(place):
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {"PYTHONPATH": str(place / "src"), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


def test_the_house_as_it_stands_keeps_every_contract(copy):
    done = lint(copy)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@pytest.mark.parametrize(("contract", "file", "line"), BREACHES, ids=[f"{b[0][:30]}: {b[1]}" for b in BREACHES])
def test_a_planted_breach_is_seen(copy, contract, file, line):
    path = copy / "src" / "bascule" / file
    before = path.read_text() if path.exists() else ""
    path.write_text(f"{before}\n{line}\n")
    done = lint(copy)
    assert done.returncode != 0
    assert f"{contract}" in done.stdout
    assert "BROKEN" in done.stdout or "could not be" in done.stdout.lower()
