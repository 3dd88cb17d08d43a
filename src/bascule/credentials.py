"""A client's own token: read from a named variable or an owner-only file, again whenever the file changes.

Keeping hashes of tokens and finding callers by them is left to `callers`; putting a token on a request to `protocol`.
"""

import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

MAX_TOKEN: Final = 4096
"""Characters of a token: ours have about 60, those of other servers rarely over 2,000."""

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
"""Visible ASCII without spaces: what one header field can carry unchanged (RFC 6750, section 2.1, is narrower)."""

_REFERENCE: Final = re.compile(r"\$?\{(?:env:)?([A-Za-z_]\w*)(?::?-.*)?\}|\$(?:env:)?([A-Za-z_]\w*)|%([A-Za-z_]\w*)%")
"""How clients write a reference to a variable; one that arrives here was not resolved by the client."""


class CredentialError(Exception):
    """There is no usable token. The text names the place, the fault and the remedy, and never holds the token."""


class TokenSource(Protocol):
    """Gives the token anew for each request."""

    @property
    def place(self) -> str:
        """Where the token comes from, in words."""
        ...

    def __call__(self) -> str:
        """Return the token.

        Raises:
            CredentialError: there is none that can be used.
        """
        ...


def token_source(env_name: str | None, file: Path | None, environ: Mapping[str, str]) -> TokenSource:
    """Return the source of a client's token: the file where one is named, else the variable.

    Raises:
        CredentialError: neither was named, or both.
    """
    if file is not None and env_name is None:
        return FileToken(file)
    if env_name is not None and file is None:
        return VariableToken(env_name, environ)
    raise CredentialError("name either the variable or the file that holds the token")


class VariableToken:
    """A token in an environment variable, looked up at each call."""

    __slots__ = ("_environ", "_name")

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self._name, self._environ = name, environ

    def __repr__(self) -> str:
        return f"<VariableToken {self._name}>"

    @property
    def place(self) -> str:
        """The variable, in words."""
        return f"the variable {self._name}"

    def __call__(self) -> str:
        """Return the variable's value without surrounding space.

        Raises:
            CredentialError: unset, empty, an unresolved reference, or no token.
        """
        value = self._environ.get(self._name)
        remedy = f"set {self._name} in the environment of this process to the caller's token"
        if value is None:
            raise CredentialError(f"the variable {self._name} is not set; {remedy}")
        return _checked(value.strip(), self.place, remedy)


class FileToken:
    """A token in a file of its own, read when the file changed since the last call."""

    __slots__ = ("_path", "_seen", "_token")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._token = ""

    def __repr__(self) -> str:
        return f"<FileToken {self._path}>"

    @property
    def place(self) -> str:
        """The file, in words."""
        return f"the file {self._path}"

    def __call__(self) -> str:
        """Return the file's one line.

        Raises:
            CredentialError: it cannot be read, others may read it, or it holds no token.
        """
        try:
            found = self._path.stat()
            mark = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
            if mark != self._seen:
                self._token = self._read()
                self._seen = mark
        except OSError as error:
            self._seen = None
            raise CredentialError(f"{self.place} cannot be read: {error.strerror or type(error).__name__}") from None
        return self._token

    def _read(self) -> str:
        """Read the file once.

        1. What is looked at is what was opened, not what its name leads to later.
        2. Only a regular file counts, and only one that nobody but its owner can read.
        3. One line of UTF-8 without a byte order mark, of bounded length, that is a token.
        """
        # A FIFO under this name must not stop the process for ever.
        descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as stream:
            self._check_kind(os.fstat(stream.fileno()))  # 1, 2
            data = stream.read(MAX_TOKEN + 4)
        remedy = "write the caller's token into it as its one line"  # 3
        if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
            raise CredentialError(f"{self.place} begins with a byte order mark; {remedy}, as plain UTF-8")
        line = data.removesuffix(b"\n").removesuffix(b"\r")
        if b"\n" in line or b"\r" in line:
            raise CredentialError(f"{self.place} holds more than one line; {remedy}")
        return _checked(line.decode("utf-8", "replace"), self.place, remedy)

    def _check_kind(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise CredentialError(f"{self.place} is not a regular file")
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            raise CredentialError(
                f"{self.place} can be read by other users; mend it with: chmod 600 {shlex.quote(str(self._path))}"
            )


def _checked(token: str, place: str, remedy: str) -> str:
    if not token:
        raise CredentialError(f"{place} is empty; {remedy}")
    if unresolved := _REFERENCE.fullmatch(token):
        # Only the name is said: `${NAME:-default}` may carry a real token as its default.
        name = next(filter(None, unresolved.groups()))
        raise CredentialError(f"{place} holds the literal ${{{name}}}: the client did not resolve it; {remedy}")
    if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
        raise CredentialError(
            f"{place} holds something that is no token (spaces, control characters, too long); {remedy}"
        )
    return token
