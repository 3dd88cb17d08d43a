"""Callers come, change their token, and go: edits of `callers.toml` that keep comments and everybody else.

Telling who calls is left to `callers`; a controller that runs sees the change by itself.
"""

from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError

from bascule.callers import CallersError, new_token, read_callers
from bascule.platform.files import write_private

_HEADER: Final = """\
# Who may call this controller. Tokens are not here, only their SHA-256; `bascule token` edits this file.
# The controller reads it again when it changes.
"""


def create_caller(path: Path, name: str, *, created: str, note: str = "") -> str:
    """Add caller `name` to the file at `path`, making the file where there is none, and return its token.

    Raises:
        CallersError: the name is taken or unusable, or the file cannot be edited.
    """
    token, digest = new_token(name)
    document = _editable(path)
    callers = document.setdefault("callers", tomlkit.table(is_super_table=True))
    if name in callers:
        raise CallersError(f"caller {name} exists; `bascule token rotate {name}` gives it a new token")
    entry = tomlkit.table()
    entry.update({"sha256": digest, "created": created} | ({"note": note} if note else {}))
    callers[name] = entry
    write_private(path, tomlkit.dumps(document).encode())
    return token


def rotate_caller(path: Path, name: str, *, created: str) -> str:
    """Give caller `name` a new token and return it; the old one is out when this returns.

    Raises:
        CallersError: there is no such caller, or the file cannot be edited.
    """
    token, digest = new_token(name)
    document = _editable(path)
    entry = _existing(document, path, name)
    entry["sha256"], entry["created"] = digest, created
    write_private(path, tomlkit.dumps(document).encode())
    return token


def revoke_caller(path: Path, name: str) -> None:
    """Remove caller `name`; its token is out when this returns.

    Raises:
        CallersError: there is no such caller, or the file cannot be edited.
    """
    document: Any = _editable(path)
    _existing(document, path, name)
    del document["callers"][name]
    write_private(path, tomlkit.dumps(document).encode())


def _editable(path: Path) -> Any:
    if not path.exists():
        return tomlkit.parse(_HEADER)
    read_callers(path)  # a file that is not sound is not edited
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8"))
    except TOMLKitError as error:
        raise CallersError(f"{path} is not TOML: {error}") from None


def _existing(document: Any, path: Path, name: str) -> Any:
    callers: Any = document.get("callers", {})
    if name not in callers:
        raise CallersError(f"there is no caller {name[:40]} in {path}; `bascule token create {name[:40]}` makes one")
    return callers[name]
