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
    """Make a caller; print its token."""
    from bascule.callers import create_caller

    token = _edit(config, lambda file: create_caller(file, name, created=today(), note=note))
    print(token)
    print(f"Caller {name} may call now. The token is shown this once; only its digest is kept.", file=sys.stderr)
    return Exit.DONE


def rotate(name: str, config: Path | None) -> int:
    """Give a caller a new token; print it."""
    from bascule.callers import rotate_caller

    token = _edit(config, lambda file: rotate_caller(file, name, created=today()))
    print(token)
    print(f"Caller {name} has this new token; the old one is out.", file=sys.stderr)
    return Exit.DONE


def revoke(name: str, config: Path | None) -> int:
    """Remove a caller."""
    from bascule.callers import revoke_caller

    _edit(config, lambda file: revoke_caller(file, name))
    print(f"Caller {name} is gone; its token is out.", file=sys.stderr)
    return Exit.DONE


def _edit(config: Path | None, change: Callable[[Path], T]) -> T:
    from bascule.callers import CallersError
    from bascule.settings import SettingsError, find_config

    try:
        return change(find_config(config, os.environ).parent / "callers.toml")
    except (CallersError, SettingsError) as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.FAILED, f"callers.toml cannot be written: {error.strerror}") from None
