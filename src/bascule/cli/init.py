"""`bascule init`: settings that work, a first caller, and its token.

Nothing that exists is touched; what the settings mean is left to `settings`.
"""

import datetime as dt
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
    existing = [str(file) for file in files if file.exists()]
    if existing:
        raise CommandError(
            Exit.USAGE, f"{', '.join(existing)} exists already and is left alone; --dir writes elsewhere"
        )
    try:
        _write(folder, token_file)
    except OSError as error:
        raise CommandError(
            Exit.USAGE, f"{folder} cannot be written: {error.strerror}; --dir writes elsewhere"
        ) from None
    print(f"Wrote {folder / FILE}, callers.toml and credentials/{OWNER}.\n\nNext:")
    option = "" if directory is None else f" --config {folder / FILE}"
    print(f"  bascule serve{option}")
    print(f"  bascule connect openclaw{option}     (or claude-code, claude-desktop, codex, cursor, vscode, gemini)")
    return Exit.DONE


def _write(folder: Path, token_file: Path) -> None:
    from bascule.callers import create_caller
    from bascule.platform.files import make_private_dir, write_private
    from bascule.settings.find import FILE

    make_private_dir(folder)
    make_private_dir(token_file.parent)
    write_private(folder / FILE, SETTINGS.encode())
    token = create_caller(folder / "callers.toml", OWNER, created=today())
    write_private(token_file, token.encode() + b"\n")


def today() -> str:
    """Return the date, as callers.toml keeps it."""
    return dt.datetime.now(dt.UTC).date().isoformat()
