"""Where each client keeps its servers, in which shape, and how it refers to a token.

Writing is left to `connect`. Which of these were proven with the client itself is in `docs/clients.md`.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bascule.connection import DEFAULT_TOKEN_VARIABLE

REQUEST_TIMEOUT_MS: Final = 120_000
"""What clients are told to wait for a call, where they can be told: more than any default operation runs."""


@dataclass(frozen=True, slots=True)
class Command:
    """What starts the bridge."""

    program: str
    arguments: tuple[str, ...]
    variable: str = DEFAULT_TOKEN_VARIABLE


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
    also: Callable[[Command], tuple[tuple[str, ...], Any]] | None = None
    """A second member that the entry needs."""
    max_name: int = 64


def _plain(reference: str, **more: Any) -> Callable[[Command], dict[str, Any]]:
    def entry(command: Command) -> dict[str, Any]:
        env = {command.variable: reference.replace("NAME", command.variable)}
        return {"command": command.program, "args": list(command.arguments), "env": env, **more}

    return entry


def _vscode(command: Command) -> dict[str, Any]:
    return {"type": "stdio", **_plain("${input:bascule-token}")(command)}


def _vscode_input(_command: Command) -> tuple[tuple[str, ...], Any]:
    question = {
        "type": "promptString",
        "id": "bascule-token",
        "description": "Token of the controller",
        "password": True,
    }
    return ("inputs",), [question]


def _codex(command: Command) -> dict[str, Any]:
    return {
        "command": command.program,
        "args": list(command.arguments),
        "env_vars": [command.variable],
        "tool_timeout_sec": REQUEST_TIMEOUT_MS // 1000,
    }


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
    return (
        Path(environ["CODEX_HOME"]) / "config.toml"
        if environ.get("CODEX_HOME")
        else _home(".codex", "config.toml")(environ)
    )


CLIENTS: Final[dict[str, Client]] = {
    "openclaw": Client(
        "OpenClaw",
        _openclaw_file,
        ("mcp", "servers"),
        _plain("${NAME}", requestTimeoutMs=REQUEST_TIMEOUT_MS),
        max_name=30,
    ),
    "claude-code": Client("Claude Code", lambda _environ: Path(".mcp.json"), ("mcpServers",), _plain("${NAME}")),
    "claude-desktop": Client("Claude Desktop", _desktop_file, ("mcpServers",), _desktop, expands=False),
    "codex": Client("Codex", _codex_file, ("mcp_servers",), _codex, toml=True),
    "cursor": Client("Cursor", _home(".cursor", "mcp.json"), ("mcpServers",), _plain("${env:NAME}")),
    "vscode": Client(
        "VS Code", lambda _environ: Path(".vscode", "mcp.json"), ("servers",), _vscode, also=_vscode_input
    ),
    "gemini": Client(
        "Gemini CLI", _home(".gemini", "settings.json"), ("mcpServers",), _plain("$NAME", timeout=REQUEST_TIMEOUT_MS)
    ),
}


def environment() -> Mapping[str, str]:
    """Return what the places of files depend on."""
    return os.environ
