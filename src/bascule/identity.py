"""Who asks: the Caller, and how it rides on an HTTP request's ASGI scope.

Finding out who asks (tokens, files) is left to `callers`; what a caller may do is left to the node's policy.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

_SCOPE_KEY: Final = "bascule.caller"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated principal, never a connection."""

    name: str
    """Unique on its controller: what record, log and policy know it by."""


class NoCallerError(LookupError):
    """A scope was asked for its caller, but no gate had put one there."""


def put_caller(scope: MutableMapping[str, Any], caller: Caller) -> None:
    """Let `caller` ride on `scope`."""
    scope[_SCOPE_KEY] = caller


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Return the caller riding on `scope`.

    Raises:
        NoCallerError: no gate put one there. It is never answered with a default: closed when unknown.
    """
    caller = scope.get(_SCOPE_KEY)
    if not isinstance(caller, Caller):
        raise NoCallerError("no caller on this request; is the bearer gate in front?")
    return caller
