"""The process table, as /proc shows it (proc(5)).

Who belongs to whom is left to `processes`; on systems without /proc the table is empty.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One row. `pid` and `started` together name a process for good: a pid alone is used again."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks since boot."""

    @property
    def dead(self) -> bool:
        """A zombie is dead."""
        return self.state in ("Z", "X")


def table() -> dict[int, Process]:
    """Return every process there is now, by pid."""
    rows: dict[int, Process] = {}
    if not _PROC.is_dir():
        return rows
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            row = one(int(entry.name))
            if row is not None:
                rows[row.pid] = row
    return rows


def one(pid: int) -> Process | None:
    """Return the row of `pid`, or None when it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name may hold blanks and brackets of its own; everything after the last bracket is numbers.
    fields = text.rpartition(")")[2].split()
    return Process(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))
