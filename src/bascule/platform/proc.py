"""The process table, as /proc shows it (proc(5)).

Who belongs to whom is left to `processes`; on systems without /proc the table is empty.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")

_ROW_BYTES: Final = 4096
"""More than a row ever has: 52 numbers and a name of at most 64 bytes."""

_SHORT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What we lack ourselves: it says nothing about a process, and must not be taken for its death."""


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
    """Return every process there is now, by pid.

    Raises:
        OSError: we are short of descriptors or memory, so that nothing is known.
    """
    rows: dict[int, Process] = {}
    try:
        names = os.listdir(_PROC)  # noqa: PTH208 - read for each command that ends: a Path for each process costs more than the read
    except FileNotFoundError:
        return rows
    for name in names:
        if name.isdigit():
            row = one(int(name))
            if row is not None:
                rows[row.pid] = row
    return rows


def one(pid: int) -> Process | None:
    """Return the row of `pid`, or None when it is gone.

    Raises:
        OSError: we are short of descriptors or memory.
    """
    text = _read(pid, "stat")
    if not text:
        return None
    # The name may hold blanks and brackets of its own; everything after the last bracket is numbers.
    fields = text.rpartition(b")")[2].split()
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def file_locks(pid: int) -> int | None:
    """Return the hard limit on file locks of `pid`; None when it has none, or is gone.

    Raises:
        OSError: we are short of descriptors or memory.
    """
    for line in _read(pid, "limits").splitlines():
        if line.startswith(b"Max file locks"):
            hard = line.split()[4]
            return int(hard) if hard.isdigit() else None
    return None


def _read(pid: int, name: str) -> bytes:
    try:
        descriptor = os.open(f"{_PROC}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _SHORT:
            raise
        return b""
    try:
        return os.read(descriptor, _ROW_BYTES)
    except OSError as error:  # it died between the two calls
        if error.errno in _SHORT:
            raise
        return b""
    finally:
        os.close(descriptor)
