"""Files and folders that only their owner may read, and telling when one is not.

What is in them is left to whoever writes; on systems without POSIX modes the folder's own protection has to do.
"""

import errno
import os
import shlex
import stat
import tempfile
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_DIR: Final = 0o700


def make_private_dir(path: Path) -> None:
    """Make `path` and what is missing above it, readable by the owner alone; an empty one that exists is tightened.

    One that is open to others and holds something is refused: it may be /tmp or /etc, named by mistake, and closing
    those takes a machine down.

    Raises:
        OSError: it cannot be made, or is open and not empty; the words say what mends it.
    """
    for missing in reversed([above for above in path.absolute().parents if not above.exists()]):
        missing.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    path.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    if os.name != "posix" or not stat.S_IMODE(path.stat().st_mode) & 0o077:
        return
    if any(path.iterdir()):
        words = f"others can get into it; if it is ours alone: chmod 700 {shlex.quote(str(path))}"
        raise PermissionError(errno.EPERM, words, str(path))
    path.chmod(PRIVATE_DIR)


def write_private(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step: readable by the owner alone, never half-written, never a BOM.

    Raises:
        OSError: it cannot be written; the old file is untouched then.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_private(path: Path) -> str | None:
    """Return what is wrong with the modes of `path`, with the command that mends it; None when nothing is.

    Raises:
        OSError: there is no such file.
    """
    status = path.stat()
    if os.name != "posix":
        return None
    if status.st_mode & 0o077:
        return f"{path} is readable by others; mend it with: chmod 600 {shlex.quote(str(path))}"
    if status.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user; mend it with: chown {os.geteuid()} {shlex.quote(str(path))}"
    return None
