"""Options that several commands share, and what they lead to.

What each command does with a connection is its own.
"""

import os
from pathlib import Path
from typing import Annotated, TypeAlias

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


def remote(
    url: str, token_env: str | None, token_file: Path | None, expect: list[str] | None, *, offer_fallback: bool = False
) -> Connection:
    """Return the connection that the options describe.

    Raises:
        CommandError: both a variable and a file were given.
    """
    if token_env and token_file:
        raise CommandError(Exit.USAGE, "--token-env and --token-file: give one of them")
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
    host = settings.controller.host
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - a wildcard bind is reached through loopback
        host = "127.0.0.1"
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.controller.port}/mcp"
    if token_env is None and token_file is None and not os.environ.get(DEFAULT_TOKEN_VARIABLE):
        token_file = settings.credentials / "owner"
    return remote(url, token_env, token_file, expect)
