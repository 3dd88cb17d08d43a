"""`bascule connect CLIENT`: prints the client's entry for the bridge, or writes it and keeps everything else.

Shapes and places are left to `clients`, editing JSON to `json_edit`; the token itself is never in an entry.
"""

import asyncio
import datetime as dt
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bascule.cli.clients import CLIENTS, Client, Command, environment
from bascule.cli.exits import CommandError, Exit
from bascule.cli.json_edit import NotEditableError, with_member
from bascule.connection import Connection, Identity

SERVER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
"""What every client shows unchanged in front of a tool's name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose entry, under which name, where."""

    client: str
    name: str
    file: Path | None = None
    write: bool = False


def run(place: Place, connection: Connection) -> int:
    """Print or write the entry; return the exit code.

    Raises:
        CommandError: no such client, a name it cannot show, or a file that cannot be written.
    """
    client = _client(place)
    seen = _seen(connection)
    command = _command(client, connection, seen)
    entry = client.entry(command)
    file = place.file or client.file(environment())
    if not place.write:
        print(_shown(client, place.name, entry, command))
        print(f"# {client.title} keeps this in {file}; --write puts it there.", file=sys.stderr)
        _hint(client, command)
        return Exit.DONE
    try:
        backup = _write(client, place.name, entry, command, file)
    except NotEditableError as error:
        print(_shown(client, place.name, entry, command))
        raise CommandError(Exit.FAILED, f"{file} is left alone: {error}. Put the entry above into it by hand") from None
    except OSError as error:
        raise CommandError(Exit.FAILED, f"{file} cannot be written: {error.strerror}") from None
    print(f"Wrote {place.name} into {file}" + (f" (before: {backup})" if backup else ""), file=sys.stderr)
    _hint(client, command)
    return Exit.DONE


def _client(place: Place) -> Client:
    client = CLIENTS.get(place.client)
    if client is None:
        raise CommandError(Exit.USAGE, f"{place.client} is not a client known here: {', '.join(CLIENTS)}")
    if not SERVER_NAME.fullmatch(place.name) or len(place.name) > client.max_name:
        words = f"lower-case letters, digits, _ and -, a letter first, at most {client.max_name} characters"
        raise CommandError(Exit.USAGE, f"--name {place.name!r}: {client.title} shows {words} unchanged")
    return client


def _seen(connection: Connection) -> Identity | None:
    """Return who answers there now, so that the entry expects it; None where nobody does."""
    from bascule.assembly import bridge

    try:
        return asyncio.run(_identity(connection))
    except bridge.ConnectionRefusedByUsError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except bridge.ControllerError as error:
        print(f"# The controller was not seen ({error}); the entry expects any name.", file=sys.stderr)
        return None


async def _identity(connection: Connection) -> Identity:
    from bascule.assembly import bridge

    async with bridge.connect(connection) as session:
        return await session.identity()


def _command(client: Client, connection: Connection, seen: Identity | None) -> Command:
    arguments = ["-m", "bascule", "bridge", "--url", connection.url]
    if connection.token_file is not None or not client.expands:
        if connection.token_file is None:
            words = f"{client.title} expands no variables; save the token in a file of mode 600 and give --token-file"
            raise CommandError(Exit.USAGE, words)
        if not client.expands:
            arguments += ["--token-file", str(connection.token_file.absolute())]
    expected = connection.expect or ((f"{seen.name}@{seen.version}",) if seen else ())
    for item in expected:
        arguments += ["--expect", item]
    # The interpreter by its full path: clients start servers with a PATH of their own.
    return Command(sys.executable, tuple(arguments), connection.token_env)


def _shown(client: Client, name: str, entry: dict[str, Any], command: Command) -> str:
    if client.toml:
        return _toml_with("", client, name, entry).strip()
    document: dict[str, Any] = {}
    here = document
    for step in client.path:
        here = here.setdefault(step, {})
    here[name] = entry
    if client.also is not None:
        path, value = client.also(command)
        document[path[0]] = value
    return json.dumps(document, indent=2, ensure_ascii=False)


def _write(client: Client, name: str, entry: dict[str, Any], command: Command, file: Path) -> Path | None:
    before = _before(file)
    if client.toml:
        after = _toml_with(before, client, name, entry)
    else:
        after = with_member(before, (*client.path, name), entry)
        if client.also is not None:
            path, value = client.also(command)
            after = _with_missing(after, path, value)
    if after == before:
        return None
    backup = _backup(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    _replace(file, after.encode())
    return backup


def _before(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise NotEditableError("it is not UTF-8") from None


def _with_missing(text: str, path: tuple[str, ...], items: list[Any]) -> str:
    """Return `text` with a list's items added that are not in it yet, by their id."""
    from bascule.cli.json_edit import member

    present = member(text, path)
    if present is not None and not isinstance(present, list):
        raise NotEditableError(f"{path[0]} is there, but is no list")
    known = [item.get("id") for item in present or () if isinstance(item, dict)]
    missing = [item for item in items if item["id"] not in known]
    return with_member(text, path, [*(present or ()), *missing]) if missing else text


def _toml_with(before: str, client: Client, name: str, entry: dict[str, Any]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(before)
        servers = document.setdefault(client.path[0], tomlkit.table(is_super_table=True))
        table = tomlkit.table()
        table.update(entry)
        servers[name] = table
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, AttributeError):
        raise NotEditableError(f"it is not clean TOML with a table {client.path[0]}") from None


def _backup(file: Path) -> Path | None:
    if not file.exists():
        return None
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    backup = file.with_name(f"{file.name}.{stamp}.bak")
    shutil.copy2(file, backup)
    return backup


def _replace(file: Path, content: bytes) -> None:
    """Replace the file in one step; a new one is private, an old one keeps its mode."""
    from bascule.platform.files import write_private

    file = file.resolve()
    mode = file.stat().st_mode & 0o777 if file.exists() else None
    write_private(file, content)
    if mode is not None:
        file.chmod(mode)


def _hint(client: Client, command: Command) -> None:
    if client.expands and client.also is None:
        words = f"# Set {command.variable} where {client.title} is started; `bascule token create NAME` makes a token."
        print(words, file=sys.stderr)
