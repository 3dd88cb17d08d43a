"""The import contracts hold, and each can fail: a breach planted in a copy is seen."""

import re
import shutil
import subprocess
import sys
import tomllib
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
    ("what a machine can do knows no MCP, no HTTP", "capabilities/which.py", "import http.client"),
    ("a decision is a pure function", "node/policy.py", "import time"),
    ("gates do not know each other", "gates/host.py", "import bascule.gates.origin"),
    ("settings are read by assembly and cli alone", "callers.py", "import bascule.settings"),
    ("only the command line starts what assembly puts together", "protocol/server.py", "import bascule.assembly.loop"),
    ("who stands on whom", "stray.py", '"""A module that no layer has."""'),
]

# A contract that lost one of its words would still be kept: each word stands here once more, in the order people think.
WORDS = {
    "node": ["mcp", "mcp_types", "starlette", "uvicorn", "httpx2", "httptools", "sqlite3", "http", "socket", "urllib"],
    "gates": ["mcp", "mcp_types", "bascule.node", "bascule.protocol", "bascule.store"],
    "protocol": ["bascule.gates", "bascule.store", "bascule.capabilities", "bascule.platform", "bascule.settings"],
    "store": ["mcp", "mcp_types", "starlette", "uvicorn", "httpx2", "bascule.gates", "bascule.protocol"],
    "machine": ["mcp", "mcp_types", "starlette", "uvicorn", "httpx2", "http", "bascule.gates", "bascule.protocol"],
    "pure": ["asyncio", "anyio", "os", "io", "time", "datetime", "random", "secrets", "pathlib", "logging", "socket"],
}


@pytest.mark.parametrize("contract", WORDS)
def test_no_contract_lost_a_word(contract):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (found,) = [one for one in settings["contracts"] if one["id"] == contract]
    assert set(WORDS[contract]) <= set(found["forbidden_modules"])
    assert settings["include_external_packages"] is True
    assert settings["exclude_type_checking_imports"] is False


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
    assert re.search(rf"^{re.escape(contract)}.* BROKEN\b", done.stdout, re.MULTILINE), done.stdout[-2000:]
