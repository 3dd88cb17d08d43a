"""Where each client keeps its servers, in which shape, and how it refers to a token.

Writing is left to `connect`. Which of these were proven with the client itself is in `docs/clients.md`.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bascule.connection import DEFAULT_TOKEN_VARIABLE

REQUEST_TIMEOUT_MS: Final = 120_000
"""What clients are told to wait for a call, where they can be told: more than any default operation runs."""

MAX_NAME: Final = 40
"""Characters of a server's name: with a tool's name it has to fit the 64 that models' APIs take."""

_ANY_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Command:
    """What starts the bridge."""

    server: str
    """What the client calls it."""
    program: str
    arguments: tuple[str, ...]
    variable: str | None = DEFAULT_TOKEN_VARIABLE
    """The variable that holds the token; None where the arguments name a file."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client's ways."""

    title: str
    file: Callable[[Mapping[str, str]], Path]
    path: tuple[str, ...]
    """Where the entry goes in the file; the server's name follows."""
    entry: Callable[[Command], dict[str, Any]]
    toml: bool = False
    expands: bool = True
    """Whether it expands a reference to a variable; one that does not is given a token file."""
    variables: re.Pattern[str] = _ANY_VARIABLE
    """Which variables it expands."""
    question: Callable[[Command], dict[str, Any]] | None = None
    """What it asks its user for, where it asks; goes into the list `inputs`."""
    max_name: int = MAX_NAME


def _plain(reference: str, **more: Any) -> Callable[[Command], dict[str, Any]]:
    def entry(command: Command) -> dict[str, Any]:
        made: dict[str, Any] = {"command": command.program, "args": list(command.arguments)}
        if command.variable is not None:
            made["env"] = {command.variable: reference.replace("NAME", command.variable)}
        return made | more

    return entry


def _vscode(command: Command) -> dict[str, Any]:
    return {"type": "stdio", **_plain(f"${{input:{command.server}-token}}")(command)}


def _vscode_question(command: Command) -> dict[str, Any]:
    return {
        "type": "promptString",
        "id": f"{command.server}-token",
        "description": f"Token of the controller behind {command.server}",
        "password": True,
    }


def _codex(command: Command) -> dict[str, Any]:
    made: dict[str, Any] = {"command": command.program, "args": list(command.arguments)}
    if command.variable is not None:
        made["env_vars"] = [command.variable]
    return made | {"tool_timeout_sec": REQUEST_TIMEOUT_MS // 1000}


def _desktop(command: Command) -> dict[str, Any]:
    return {"command": command.program, "args": list(command.arguments)}


def _home(*parts: str) -> Callable[[Mapping[str, str]], Path]:
    return lambda environ: Path(environ.get("HOME") or Path.home()).joinpath(*parts)


def _openclaw_file(environ: Mapping[str, str]) -> Path:
    named = environ.get("OPENCLAW_CONFIG_PATH")
    if named:
        return Path(named)
    state = environ.get("OPENCLAW_STATE_DIR")
    return (Path(state) if state else _home(".openclaw")(environ)) / "openclaw.json"


def _desktop_file(environ: Mapping[str, str]) -> Path:
    name = "claude_desktop_config.json"
    if sys.platform == "darwin":
        return _home("Library", "Application Support", "Claude", name)(environ)
    if sys.platform == "win32":
        return Path(environ.get("APPDATA", "")) / "Claude" / name
    return _home(".config", "Claude", name)(environ)


def _codex_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("CODEX_HOME")
    return (Path(home) if home else _home(".codex")(environ)) / "config.toml"


CLIENTS: Final[dict[str, Client]] = {
    "openclaw": Client(
        "OpenClaw",
        _openclaw_file,
        ("mcp", "servers"),
        _plain("${NAME}", requestTimeoutMs=REQUEST_TIMEOUT_MS),
        variables=re.compile(r"[A-Z_][A-Z0-9_]*"),
        max_name=30,
    ),
    "claude-code": Client("Claude Code", lambda _environ: Path(".mcp.json"), ("mcpServers",), _plain("${NAME}")),
    "claude-desktop": Client("Claude Desktop", _desktop_file, ("mcpServers",), _desktop, expands=False),
    "codex": Client("Codex", _codex_file, ("mcp_servers",), _codex, toml=True),
    "cursor": Client("Cursor", _home(".cursor", "mcp.json"), ("mcpServers",), _plain("${env:NAME}")),
    "vscode": Client(
        "VS Code",
        lambda _environ: Path(".vscode", "mcp.json"),
        ("servers",),
        _vscode,
        question=_vscode_question,
    ),
    "gemini": Client(
        "Gemini CLI", _home(".gemini", "settings.json"), ("mcpServers",), _plain("$NAME", timeout=REQUEST_TIMEOUT_MS)
    ),
}


def environment() -> Mapping[str, str]:
    """Return what the places of files depend on."""
    return os.environ
