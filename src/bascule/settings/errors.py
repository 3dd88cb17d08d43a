"""What can be wrong with settings, with the place where it is.

Finding the place is left to `positions`, judging values to `model`.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend."""

    key: str
    """Dotted, as one would write it."""
    line: int | None
    """Counted from 1; None where the file has no such place."""
    words: str
    """What is wrong and what would be right."""


class SettingsError(Exception):
    """The settings cannot be used; nothing was started. `problems` holds all that was found."""

    def __init__(self, path: Path | None, problems: Sequence[Problem]) -> None:
        self.path, self.problems = path, tuple(problems)
        super().__init__("\n".join(self._lines()))

    def _lines(self) -> list[str]:
        where = str(self.path) if self.path else "settings"
        return [
            f"{where}{f':{problem.line}' if problem.line else ''}: {f'{problem.key}: ' if problem.key else ''}{problem.words}"
            for problem in self.problems
        ]


def dotted(steps: Sequence[str | int]) -> str:
    """Return a key as one would write it: `operations."service.restart".command[2]`."""
    written = ""
    for step in steps:
        if isinstance(step, int):
            written += f"[{step}]"
        else:
            written += ("." if written else "") + (step if _BARE.fullmatch(step) else json.dumps(step))
    return written
