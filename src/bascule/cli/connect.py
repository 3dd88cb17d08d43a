"""`bascule connect CLIENT`: prints the client's entry for the bridge, or writes it and keeps everything else.

Shapes and places are left to `clients`, editing files to `client_file`; the token itself is never in an entry.
"""

import asyncio
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule.cli.client_file import with_entry, write
from bascule.cli.clients import CLIENTS, Client, Command, environment
from bascule.cli.exits import CommandError, Exit
from bascule.cli.json_places import NotEditableError
from bascule.cli.options import program
from bascule.connection import DEFAULT_TOKEN_VARIABLE, Connection, Identity

SERVER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
"""What every client shows unchanged in front of a tool's name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose entry, under which name, where."""

    client: str
    name: str
    file: Path | None = None
    write: bool = False
    by_file: bool = False
    """Whether the bridge shall read its token from a file although the client could hand it a variable."""


def run(place: Place, connection: Connection) -> int:
    """Print or write the entry; return the exit code.

    Raises:
        CommandError: no such client, a name it cannot show, or a file that cannot be written.
    """
    client = _client(place)
    token = _token_arguments(client, place, connection)
    command = _command(place, connection, token, _seen(connection))
    file = (place.file or client.file(environment())).absolute()
    if not place.write:
        print(with_entry("", client, command).rstrip())
        print(f"# {client.title} keeps this in {file}; --write puts it there.", file=sys.stderr)
    else:
        _put(file, client, command)
    _hint(client, command, connection.token_file)
    return Exit.DONE


def _put(file: Path, client: Client, command: Command) -> None:
    try:
        written = write(file, client, command)
    except NotEditableError as error:
        print(with_entry("", client, command).rstrip())
        words = f"{file} is left alone: {error}. Put the entry above into it by hand"
        raise CommandError(Exit.FAILED, words) from None
    except OSError as error:
        raise CommandError(Exit.FAILED, f"{file} cannot be written: {error.strerror}") from None
    if not written.changed:
        print(f"{command.server} is in {file} already, just so.", file=sys.stderr)
        return
    before = f"; as it was: {written.backup}" if written.backup else ""
    print(f"Wrote {command.server} into {file}{before}", file=sys.stderr)


def _client(place: Place) -> Client:
    client = CLIENTS.get(place.client)
    if client is None:
        raise CommandError(Exit.USAGE, f"{place.client} is not a client known here: {', '.join(CLIENTS)}")
    if not SERVER_NAME.fullmatch(place.name) or len(place.name) > client.max_name:
        words = f"lower-case letters, digits, _ and -, a letter first, at most {client.max_name} characters"
        raise CommandError(Exit.USAGE, f"--name {place.name!r}: {client.title} shows {words} unchanged")
    return client


def _token_arguments(client: Client, place: Place, connection: Connection) -> list[str]:
    """Return what tells the bridge where its token is; nothing where it is the default variable."""
    if place.by_file or not client.expands:
        if connection.token_file is None:
            words = f"{client.title} expands no variables; save the token in a file of mode 600 and give --token-file"
            raise CommandError(Exit.USAGE, words)
        return ["--token-file", str(connection.token_file.absolute())]
    if not client.variables.fullmatch(connection.token_env):
        words = f"--token-env: {client.title} expands only names of upper-case letters, digits and _"
        raise CommandError(Exit.USAGE, words)
    return [] if connection.token_env == DEFAULT_TOKEN_VARIABLE else ["--token-env", connection.token_env]


def _seen(connection: Connection) -> Identity | None:
    """Return who answers there now, so that the entry expects it; None where nobody does."""
    from bascule.assembly import bridge

    try:
        return asyncio.run(_identity(connection))
    except bridge.ConnectionRefusedByUsError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except bridge.ControllerError as error:
        if not connection.expect:
            print(f"# The controller was not seen; the entry expects any name. ({error})", file=sys.stderr)
        return None


async def _identity(connection: Connection) -> Identity:
    from bascule.assembly import bridge

    async with bridge.connect(connection) as session:
        return await session.identity()


def _command(place: Place, connection: Connection, token: list[str], seen: Identity | None) -> Command:
    # A name alone means this product's own version, so the entry outlives an upgrade of both sides.
    expected = connection.expect or ((seen.name,) if seen else ())
    start, *arguments = program()
    arguments += ["bridge", "--url", connection.url, *token]
    for item in expected:
        arguments += ["--expect", item]
    variable = None if "--token-file" in token else connection.token_env
    return Command(place.name, start, tuple(arguments), variable)


def _hint(client: Client, command: Command, known: Path | None) -> None:
    """Say where the token comes from; `known` is a file on this machine that holds one."""
    if command.variable is None:
        return
    if client.question is not None:
        print(
            f"# {client.title} asks for the token and keeps it; `bascule token create NAME` makes one.", file=sys.stderr
        )
        return
    if known is not None and known.is_file():
        how = f'export {command.variable}="$(cat {shlex.quote(str(known.absolute()))})"'
    else:
        how = f"set {command.variable} to the caller's token (`bascule token create NAME` makes one)"
    print(f"# Where {client.title} is started: {how}", file=sys.stderr)
