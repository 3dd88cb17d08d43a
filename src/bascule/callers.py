"""Who may call: `callers.toml`, its tokens, and telling from a token who asks.

What a caller may do is left to the node's policy; the token itself is the client's alone and is kept here as a digest.

How a token is checked:

1. It has our form, `bsc_<caller>_<43 characters>`; the name in it only says which digest to compare with.
2. The file is read anew when it changed. A broken or missing one keeps the last good one and says so: authentication
   is never turned off, and a caller that was removed from a readable file is out at once.
3. The SHA-256 of the whole token is compared in constant time, with a decoy where the name is unknown.
"""

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule.identity import Caller

NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
"""No underscore, so that a token splits in one way only."""

TOKEN: Final = re.compile(r"bsc_([a-z][a-z0-9-]{0,31})_[A-Za-z0-9_-]{43}")

TOKEN_BYTES: Final = 32
"""256 random bits: nothing to guess, so a fast hash is enough (decision 9)."""

MAX_FILE: Final = 1_048_576
"""Bytes of `callers.toml`: thousands of callers; more is not such a file."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DECOY: Final = hashlib.sha256(secrets.token_bytes(TOKEN_BYTES)).hexdigest()

_log: Final = logging.getLogger("bascule.callers")


class CallersError(Exception):
    """`callers.toml` cannot be read or edited; the text says what would mend it and holds no digest."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The callers of one reading of the file."""

    digests: Mapping[str, str] = field(default_factory=dict, repr=False)
    stamp: tuple[int, int, int] | None = None


def new_token(name: str) -> tuple[str, str]:
    """Return a fresh token for caller `name`, and its digest.

    Raises:
        CallersError: `name` is not a caller's name.
    """
    if not NAME.fullmatch(name):
        raise CallersError(
            f"{name[:40]!r} cannot name a caller: lower-case letters, digits and -, a letter first, at most 32"
        )
    random = base64.urlsafe_b64encode(secrets.token_bytes(TOKEN_BYTES)).rstrip(b"=").decode()
    token = f"bsc_{name}_{random}"
    return token, _digest(token)


class CallersFile:
    """The callers of one controller, read again whenever the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _Known()
        self._complaint = ""

    def __repr__(self) -> str:
        return f"<CallersFile {self._path}: {len(self._known.digests)} callers>"

    def authenticate(self, token: str) -> Caller | None:
        """Return the caller whose token this is, or None."""
        match = TOKEN.fullmatch(token)  # 1
        self._refresh()  # 2
        name = match[1] if match else ""
        expected = self._known.digests.get(name)
        same = hmac.compare_digest(_digest(token), expected or _DECOY)  # 3
        return Caller(name) if same and expected is not None else None

    def names(self) -> tuple[str, ...]:
        """Return the names of the callers in force."""
        self._refresh()
        return tuple(self._known.digests)

    def _refresh(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._known.stamp and stamp is not None:
            return
        try:
            self._known = _Known(read_callers(self._path), stamp)
            self._complaint = ""
        except CallersError as error:
            if str(error) != self._complaint:
                _log.error("%s; the callers known before stay in force", error)
            self._complaint = str(error)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked for every request; Path.stat costs twice as much
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def read_callers(path: Path) -> dict[str, str]:
    """Return the digest of each caller's token, by name.

    Raises:
        CallersError: the file cannot be read or is not sound.
    """
    try:
        if path.stat().st_size > MAX_FILE:
            raise CallersError(f"{path} is larger than {MAX_FILE} bytes")
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CallersError(
            f"{path} cannot be read ({os.strerror(error.errno or 0)}); `bascule init` writes one"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CallersError(f"{path} is not TOML: {error}") from None
    callers = document.get("callers", {})
    if not isinstance(callers, dict) or document.keys() - {"callers"}:
        raise CallersError(f"{path}: only [callers.NAME] tables belong here")
    return {name: _entry(path, name, entry) for name, entry in callers.items()}


def _entry(path: Path, name: str, entry: Any) -> str:
    if not NAME.fullmatch(name) or not isinstance(entry, dict) or entry.keys() - {"sha256", "created", "note"}:
        raise CallersError(f"{path}: [callers.{name[:40]}] is not an entry; it has sha256, created and perhaps note")
    digest = entry.get("sha256")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise CallersError(
            f"{path}: [callers.{name}] sha256 must be 64 hex digits; `bascule token rotate {name}` mends it"
        )
    return digest


def names_in(path: Path) -> tuple[str, ...]:
    """Return the names of the callers in the file at `path`.

    Raises:
        CallersError: it cannot be read or is not sound.
    """
    return tuple(read_callers(path))
