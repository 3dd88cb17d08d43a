"""Exit codes, and the one way in which a command fails.

Which failure has which words is left to where it is known.
"""

from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """Documented in the README; scripts rely on them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    TRANSPORT = 4
    UNKNOWN = 5


class CommandError(Exception):
    """A command cannot go on: hop, cause and remedy in words, and the exit code."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code


_OF_CATEGORY: Final = {
    "none": Exit.DONE,
    "invalid_request": Exit.USAGE,
    "unsupported_command": Exit.REFUSED,
    "permission_denied": Exit.REFUSED,
    "exec_policy_denied": Exit.REFUSED,
    "approval_pending": Exit.REFUSED,
    "transport_failure": Exit.TRANSPORT,
    "outcome_unknown": Exit.UNKNOWN,
}


def exit_of(category: str) -> Exit:
    """Return the exit code of an outcome's category; what is not listed is a failed operation."""
    return _OF_CATEGORY.get(category, Exit.FAILED)
