"""What is printed: text of other machines must not steer this terminal, and a reader that left is no error.

Which text is printed is left to the commands.
"""

import contextlib
import json
import os
import re
import sys
from typing import Any, Final, TextIO

_STEERING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed (terminals execute them), and those that turn the direction of writing."""


def say(text: str, stream: TextIO | None = None) -> None:
    """Print `text`; on a terminal, what would steer it is shown as an escape. Pipes and files get every character."""
    stream = stream or sys.stdout
    print(_STEERING.sub(_escaped, text) if stream.isatty() else text, file=stream)


def say_json(value: Any) -> None:
    """Print `value` as JSON for programs; on a terminal the same, with steering characters escaped."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def prepare() -> None:
    """Let output survive a locale that cannot write it: better an escape than an error after the work is done."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # tests replace the streams


def finish() -> bool:
    """Write out what is left; return False where the reader has gone, after which nothing more is written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
