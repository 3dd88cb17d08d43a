"""`bascule token`: callers of this machine's controller come, change their token, and go.

The file is left to `callers`; a token is printed once, alone on stdout, so that it can be piped.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bascule.cli.exits import CommandError, Exit
from bascule.cli.init import today

T = TypeVar("T")


def create(name: str, config: Path | None, note: str) -> int:
    """Make a caller; print its token.

    Raises:
        CommandError: there is such a caller, the name is unusable, or the file cannot be edited.
    """
    from bascule.enrolment import create_caller

    folder = _folder(config)
    token = _edit(lambda: create_caller(folder / "callers.toml", name, created=today(), note=note))
    print(token)
    print(f"Caller {name} may call now. The token is shown this once; only its digest is kept.", file=sys.stderr)
    return Exit.DONE


def rotate(name: str, config: Path | None) -> int:
    """Give a caller a new token; print it, and renew the copy that this machine's own commands use.

    Raises:
        CommandError: there is no such caller, or a file cannot be written.
    """
    from bascule.enrolment import rotate_caller
    from bascule.platform.files import write_private

    folder = _folder(config)
    token = _edit(lambda: rotate_caller(folder / "callers.toml", name, created=today()))
    # Printed first: should the copy fail, the token must not be lost.
    print(token, flush=True)
    own = folder / "credentials" / name
    if own.is_file():
        _edit(lambda: write_private(own, token.encode() + b"\n"))
    renewed = f" {own} has the new one." if own.is_file() else ""
    print(f"Caller {name} has this new token; the old one is out.{renewed}", file=sys.stderr)
    return Exit.DONE


def revoke(name: str, config: Path | None) -> int:
    """Remove a caller, and the dead token that this machine's own commands would use.

    Raises:
        CommandError: there is no such caller, or a file cannot be written.
    """
    from bascule.enrolment import revoke_caller

    folder = _folder(config)
    _edit(lambda: revoke_caller(folder / "callers.toml", name))
    own = folder / "credentials" / name
    removed = f" {own} is removed." if own.is_file() else ""
    _edit(lambda: own.unlink(missing_ok=True))
    print(f"Caller {name} is gone; its token is out.{removed}", file=sys.stderr)
    return Exit.DONE


def _folder(config: Path | None) -> Path:
    from bascule.settings import SettingsError, find_config

    try:
        return find_config(config, os.environ).parent
    except SettingsError as error:
        raise CommandError(Exit.USAGE, str(error)) from None


def _edit(change: Callable[[], T]) -> T:
    from bascule.callers import CallersError

    try:
        return change()
    except CallersError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.FAILED, f"{error.filename or 'a file'} cannot be written: {error.strerror}") from None
