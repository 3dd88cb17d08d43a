"""`bascule init`: settings that work, a first caller, and its token.

Nothing that exists is touched; what the settings mean is left to `settings`.
"""

import datetime as dt
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bascule.cli.exits import CommandError, Exit

SETTINGS: Final = """\
# Settings of this machine's Bascule controller. What is not allowed here does not exist for agents.
# `bascule serve` reads this file; `bascule doctor` says what is wrong with it.

[controller]
# name = "my-machine"        # what agents are shown; this machine's own name by default
host = "127.0.0.1"           # loopback: publish through `ssh -L`, a tailnet or a reverse proxy
port = 8765
# hosts = ["gpu.tailnet.ts.net"]   # further names that requests may be addressed to
# origins = []                     # browser origins; empty serves no browser
# drain = "20s"                    # what running work gets when the controller stops

[policy]
# Names and globs of operations. Empty means nothing.
allow = ["device.*", "system.which"]

# An operation of your own: a command without a shell, with typed arguments. To use it, take away the #
# and add "service.restart" to `allow`.
#
# [operations."service.restart"]
# description = "Restart one of the model services"
# command = ["systemctl", "restart", "{service}"]   # {service} is one argument, whatever is in it
# effect = "write"                                  # read | write | destructive
# timeout = "2m"
# environment = []                                  # names of variables that it gets besides PATH, HOME, ...
# [operations."service.restart".arguments.service]  # JSON Schema
# type = "string"
# enum = ["vllm", "tts"]
"""

OWNER: Final = "owner"


def run(directory: Path | None) -> int:
    """Write the files and say what to do next.

    Raises:
        CommandError: a file exists already, or cannot be written.
    """
    from bascule.settings import config_folder
    from bascule.settings.find import FILE

    folder = (directory or config_folder()).absolute()
    token_file = folder / "credentials" / OWNER
    files = [folder / FILE, folder / "callers.toml", token_file]
    existing = [str(file) for file in files if file.is_symlink() or file.exists()]
    if existing:
        raise CommandError(
            Exit.USAGE, f"{', '.join(existing)} exists already and is left alone; --dir writes elsewhere"
        )
    _check_folder(folder)
    try:
        _write(folder, token_file)
    except OSError as error:
        raise CommandError(
            Exit.USAGE, f"{folder} cannot be written: {error.strerror}; --dir writes elsewhere"
        ) from None
    _say_next(folder, elsewhere=directory is not None)
    return Exit.DONE


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which others could swap the settings; one that exists keeps the modes it has.

    Raises:
        CommandError: others may write there.
    """
    if os.name != "posix" or not folder.is_dir():
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o022:
        words = f"others may write in {folder}, and so decide what agents may do; mend it with: chmod go-w"
        raise CommandError(Exit.USAGE, f"{words} {shlex.quote(str(folder))}")


def _write(folder: Path, token_file: Path) -> None:
    from bascule.enrolment import create_caller
    from bascule.platform.files import make_private_dir, write_private
    from bascule.settings.find import FILE

    callers, settings = folder / "callers.toml", folder / FILE
    if not folder.is_dir():
        make_private_dir(folder)
    make_private_dir(token_file.parent)
    with _all_or_none(callers, token_file, settings):
        token = create_caller(callers, OWNER, created=today())
        write_private(token_file, token.encode() + b"\n")
        write_private(settings, SETTINGS.encode())


@contextmanager
def _all_or_none(*files: Path) -> Iterator[None]:
    """Take away what was written when the rest cannot be: half an installation would be refused the next time."""
    try:
        yield
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        raise


def _say_next(folder: Path, *, elsewhere: bool) -> None:
    from bascule.cli.options import command_name
    from bascule.settings.find import FILE

    start = command_name()
    option = f" --config {shlex.quote(str(folder / FILE))}" if elsewhere else ""
    print(f"Wrote {folder / FILE}, callers.toml and credentials/{OWNER}.\n\nNext:")
    print(f"  {start} serve{option}")
    print(f"  {start} connect openclaw{option}     (or claude-code, claude-desktop, codex, cursor, vscode, gemini)")


def today() -> str:
    """Return the date, as callers.toml keeps it."""
    return dt.datetime.now(dt.UTC).date().isoformat()
