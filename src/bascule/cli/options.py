"""Options that several commands share, and what they lead to.

What each command does with a connection is its own.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from bascule.cli.exits import CommandError, Exit
from bascule.connection import DEFAULT_TOKEN_VARIABLE, Connection

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file (else BASCULE_CONFIG, ./bascule.toml, the configuration folder)."),
]
UrlOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--url", help="The controller, such as http://127.0.0.1:8765; without it, this machine's own."),
]
TokenEnvOption: TypeAlias = Annotated[
    str | None, typer.Option("--token-env", metavar="NAME", help="Variable that holds the token (BASCULE_TOKEN).")
]
TokenFileOption: TypeAlias = Annotated[
    Path | None, typer.Option("--token-file", help="File that holds the token, readable by its owner alone.")
]
ExpectOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--expect", metavar="NAME@VERSION", help="Who must answer: gpu-box@1.4.0, gpu-box@>=1.4,<1.6, *@1.4.0."
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
"""The name of an environment variable (POSIX.1, 8.1), within reason."""


def program() -> list[str]:
    """Return what starts this very installation from any folder and any PATH.

    The script beside the interpreter, where there is one; never `-m` alone, which would import from the folder it is
    started in, and agents are started in folders that others write.
    """
    script = Path(sys.executable).with_name("bascule.exe" if sys.platform == "win32" else "bascule")
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "bascule"]


def command_name() -> str:
    """Return what a person types to start this installation: `bascule` where PATH leads to it, else its full path."""
    start = program()
    found = shutil.which("bascule")
    if found is not None and len(start) == 1 and Path(found).samefile(start[0]):
        return "bascule"
    return shlex.join(start)


def remote(
    url: str, token_env: str | None, token_file: Path | None, expect: list[str] | None, *, offer_fallback: bool = False
) -> Connection:
    """Return the connection that the options describe.

    Raises:
        CommandError: both a variable and a file were given, or what cannot name a variable.
    """
    if token_env and token_file:
        raise CommandError(Exit.USAGE, "--token-env and --token-file: give one of them")
    if token_env is not None and (not VARIABLE.fullmatch(token_env) or token_env.startswith("bsc_")):
        # Not quoted: it may be the token itself, given by mistake.
        raise CommandError(Exit.USAGE, "--token-env takes the name of a variable, never the token itself")
    return Connection(url, token_env or DEFAULT_TOKEN_VARIABLE, token_file, tuple(expect or ()), offer_fallback)


def chosen(
    url: str | None, token_env: str | None, token_file: Path | None, expect: list[str] | None, config: Path | None
) -> Connection:
    """Return the connection that the options describe; without --url, the one to this machine's own controller.

    Raises:
        CommandError: the options contradict each other, or this machine has no settings to go by.
    """
    if url is not None:
        return remote(url, token_env, token_file, expect)
    return _own(token_env, token_file, expect, config)


def _own(token_env: str | None, token_file: Path | None, expect: list[str] | None, config: Path | None) -> Connection:
    from bascule.settings import SettingsError, find_config, load

    try:
        settings = load(find_config(config, os.environ))
    except SettingsError as error:
        raise CommandError(Exit.USAGE, f"{error}\n(or name a controller with --url)") from None
    if settings.controller.port == 0:
        words = f"{settings.path} lets the controller pick its port; name it as `serve` showed it, with --url"
        raise CommandError(Exit.USAGE, words)
    host = settings.controller.host.removeprefix("[").removesuffix("]")
    if host in ("", "0", "*", "0.0.0.0", "::"):  # noqa: S104 - a wildcard bind is reached through loopback
        host = "::1" if host == "::" else "127.0.0.1"
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.controller.port}/mcp"
    owner = settings.credentials / "owner"
    if token_env is None and token_file is None and (owner.exists() or not os.environ.get(DEFAULT_TOKEN_VARIABLE)):
        # The variable may well hold the token of another machine's controller.
        token_file = owner
    return remote(url, token_env, token_file, expect)
