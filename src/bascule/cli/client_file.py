"""One client's own file: read, the entry put in, a backup made, and replaced in one step.

What the entry is, is left to `clients`; what is said about it to `connect`.

What keeps the file safe:

1. A file that does not read cleanly is left alone, and so is one that would lose anything but an old entry of ours.
2. A copy with the time in its name is made first and never over another one.
3. The new file takes the old one's place in one step, through symbolic links, with the old one's mode and owner.
4. A client that wrote in between wins: its file is left alone.
"""

import contextlib
import datetime as dt
import os
import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bascule.cli.clients import Client, Command
from bascule.cli.json_edit import with_item, with_member
from bascule.cli.json_places import NotEditableError

_MARK: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class Written:
    """What came of it."""

    changed: bool
    backup: Path | None = None


def with_entry(before: str, client: Client, command: Command) -> str:
    """Return a client's file with the entry in it; everything else is as it was.

    Raises:
        NotEditableError: the file does not read cleanly, or has no place for the entry.
    """
    entry = client.entry(command)
    if client.toml:
        return _toml_with(before, client.path[0], command.server, entry)
    after = with_member(before, (*client.path, command.server), entry)
    if client.question is not None and command.variable is not None:
        after = with_item(after, "inputs", client.question(command), key="id")
    return after


def write(file: Path, client: Client, command: Command) -> Written:
    """Put the entry into `file`, making it where there is none.

    Raises:
        NotEditableError: rules 1 and 4; nothing was changed.
        OSError: the file or its folder cannot be read or written.
    """
    target = file.resolve()
    old = target.read_bytes() if target.exists() else None
    before = _text(old or b"")
    mark = _MARK if before.startswith(_MARK) else ""
    after = (mark + with_entry(before.removeprefix(_MARK), client, command)).encode()  # 1
    if after == old:
        return Written(False)
    target.parent.mkdir(parents=True, exist_ok=True)
    backup = _backup(target) if old is not None else None  # 2
    if (target.read_bytes() if target.exists() else None) != old:  # 4
        raise NotEditableError("it was changed by another program just now; try again")
    _replace(target, after)  # 3
    return Written(True, backup)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise NotEditableError("it is not UTF-8") from None


def _backup(file: Path) -> Path:
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    backup, number = file.with_name(f"{file.name}.{stamp}.bak"), 0
    while backup.exists():
        number += 1
        backup = file.with_name(f"{file.name}.{stamp}-{number}.bak")
    shutil.copy2(file, backup)
    return backup


def _replace(file: Path, content: bytes) -> None:
    from bascule.platform.files import write_private

    old = file.stat() if file.exists() else None
    write_private(file, content)
    if old is None:
        return
    file.chmod(old.st_mode & 0o7777)
    if os.name == "posix" and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        # Run with sudo, the file must stay its user's.
        with contextlib.suppress(PermissionError):
            os.chown(file, old.st_uid, old.st_gid)


def _toml_with(before: str, table: str, name: str, entry: dict[str, Any]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable

    try:
        expected = tomllib.loads(before)
        document: Any = tomlkit.parse(before)
        servers = document.setdefault(table, tomlkit.table(is_super_table=True))
        made = tomlkit.inline_table() if isinstance(servers, InlineTable) else tomlkit.table()
        made.update(entry)
        servers[name] = made
        after = tomlkit.dumps(document)
        expected.setdefault(table, {})[name] = entry
        kept = tomllib.loads(after) == expected
    except (TOMLKitError, tomllib.TOMLDecodeError) as error:
        raise NotEditableError(f"it is not clean TOML: {str(error)[:120]}") from None
    except (TypeError, AttributeError, ValueError):
        raise NotEditableError(f"{table} is there, but is no table") from None
    if not kept:
        raise NotEditableError("editing it would change more than the entry")
    if "\r\n" in before and not re.search(r"(?<!\r)\n", before):
        after = re.sub(r"(?<!\r)\n", "\r\n", after)
    return after
