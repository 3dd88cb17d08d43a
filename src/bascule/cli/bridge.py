"""`bascule bridge`: one MCP client on stdio, one controller behind it.

The session itself is left to `assembly`; here is decided what ends it before it begins.
"""

import os
import sys
from pathlib import Path

from bascule.cli.exits import CommandError, Exit
from bascule.cli.options import remote


def run(
    url: str,
    token_env: str | None,
    token_file: Path | None,
    expect: list[str] | None,
    initialize_fallback: str | None,
) -> int:
    """Serve until the client leaves; return the exit code.

    Raises:
        CommandError: an option is unusable; or a person is at the terminal and the token is missing.
    """
    if initialize_fallback not in (None, "refuse", "offer"):
        raise CommandError(Exit.USAGE, "--initialize-fallback must be refuse or offer")
    offer = (initialize_fallback or _configured()) == "offer"
    connection = remote(url, token_env, token_file, expect, offer_fallback=offer)
    if sys.stdin.isatty():
        _need_token(connection.token_env, connection.token_file)
    from bascule.assembly import bridge

    try:
        return bridge.bridge(connection)
    except bridge.ConnectionRefusedByUsError as error:
        raise CommandError(Exit.USAGE, str(error)) from None


def _need_token(token_env: str, token_file: Path | None) -> None:
    from bascule.credentials import CredentialError, token_source

    try:
        token_source(None if token_file else token_env, token_file, os.environ)()
    except CredentialError as error:
        raise CommandError(Exit.USAGE, str(error)) from None


def _configured() -> str:
    from bascule.settings import SettingsError, find_config, load

    try:
        return load(find_config(None, os.environ)).bridge.initialize_fallback
    except SettingsError:
        return "refuse"
