"""Failures between bridge and controller in words: hop, cause, remedy; and what they mean for a call. Pure.

How failures come about is left to `exchange` and `link`. Rule 9: on stdio every failure of a call is a result.
"""

from dataclasses import dataclass
from typing import Final

from mcp import MCPError
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

from bascule.node.terms import Category, Cause, Effect, EffectState, Failed, Refused
from bascule.protocol.exchange import MAX_WORDS, Failure, Kind

BEFORE_EFFECT: Final = frozenset(
    {HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION}
)
"""JSON-RPC errors that a server gives instead of executing anything."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing can be reached now, for a person."""

    cause: str
    remedy: str
    category: Category = Category.TRANSPORT_FAILURE
    disowns: bool = False
    """Whether what was offered before must not be offered any longer: it is another's, or no longer this caller's."""

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}"


_REMEDIES: Final = {
    Kind.NO_TOKEN: "Then call again; nothing needs to be restarted if the token comes from a file",
    Kind.UNREACHABLE: "Is `bascule serve` running there, and is the address right? It is used again as soon as it answers",
    Kind.ADDRESS: "Give --url an address of a private network or of this machine",
    Kind.TLS: "The certificate must be trusted on this machine and carry the name of the URL",
    Kind.BUSY: "Call again in a moment",
    Kind.UNAUTHORIZED: "Put a token that is in force there into {place} (`bascule token create` makes one there)",
    Kind.FORBIDDEN: "The controller does not answer from this address or through this proxy; see its log",
    Kind.MISDIRECTED: "Add the host of the URL to `hosts` under [controller] in the controller's settings",
    Kind.REDIRECT: "Redirects are never followed; give --url the address it should be",
    Kind.NOT_MCP: "Is there another server, or a proxy, at this address? It must speak MCP 2026-07-28 at this path",
    Kind.REFUSED: "See the controller's log",
    Kind.TOO_LARGE: "Send less, or ask for less",
    Kind.LOST: "Call again",
}


def problem(failure: Failure, *, url: str, place: str) -> Problem:
    """Return `failure` in words; `place` is where the token comes from."""
    remedy = _REMEDIES[failure.kind].format(place=place)
    match failure.kind:
        case Kind.NO_TOKEN:
            cause = f"The bridge has no token for the controller at {url}: {failure.cause}"
        case Kind.UNREACHABLE:
            cause = f"The controller at {url} cannot be reached: {failure.cause}"
        case Kind.UNAUTHORIZED:
            cause = f"The controller at {url} refused the token from {place}"
        case _:
            cause = f"The controller at {url} cannot be used: {failure.cause}"
    category = {
        Kind.UNAUTHORIZED: Category.PERMISSION_DENIED,
        Kind.FORBIDDEN: Category.PERMISSION_DENIED,
        Kind.NO_TOKEN: Category.PERMISSION_DENIED,
        Kind.BUSY: Category.NODE_BUSY,
    }.get(failure.kind, Category.TRANSPORT_FAILURE)
    return Problem(cause, remedy, category, disowns=failure.kind is Kind.UNAUTHORIZED)


def unexpected(reason: str, *, url: str) -> Problem:
    """Return the problem that the server at `url` is not the expected one."""
    remedy = "Upgrade the older side, correct --url, or say whom to expect with --expect NAME@VERSION"
    return Problem(f"At {url} is {reason}", remedy, Category.TRANSPORT_FAILURE, disowns=True)


def not_modern(detail: str, *, url: str) -> Problem:
    """Return the problem that a server answers, but not as 2026-07-28 says."""
    remedy = "It must speak MCP 2026-07-28 at this path; upgrade it, or correct --url"
    return Problem(f"The server at {url} cannot be used: {detail}", remedy, disowns=True)


def failed(failure: Failure, found: Problem, effect: Effect) -> Refused | Failed:
    """Return what `failure` means for a call of an operation with `effect`.

    1. What was never sent, or was refused at a gate, did nothing.
    2. A read that got lost did nothing that matters.
    3. Anything else may have happened: nobody here knows, and the words say so.
    """
    if not failure.sent:  # 1
        return Refused(found.category, f"{found.cause}; nothing was executed. {found.remedy}.", failure.kind)
    if effect is Effect.READ:  # 2
        return Failed(found.category, f"{found}.", failure.kind, cause=Cause.ABANDONED, effect=EffectState.NONE)
    words = (
        f"Outcome unknown: the request was sent, then {failure.cause}. The operation may have been executed, in whole or "
        "in part. Look at the state it changes before calling again."
    )
    return Failed(Category.OUTCOME_UNKNOWN, words, failure.kind, cause=Cause.ABANDONED)  # 3


def errored(error: MCPError, effect: Effect, *, url: str) -> Refused | Failed:
    """Return what a JSON-RPC error of the controller means for a call."""
    said = "".join(character if character.isprintable() else "?" for character in error.message[:MAX_WORDS])
    words = f"The controller at {url} answered with an error ({error.code}): {said}"
    if error.code in BEFORE_EFFECT:
        category = Category.INVALID_REQUEST if error.code == INVALID_PARAMS else Category.OTHER
        return Refused(category, f"{words}; nothing was executed.", f"JSON-RPC {error.code}")
    state = EffectState.NONE if effect is Effect.READ else EffectState.PARTIAL
    return Failed(Category.INTERNAL_FAILURE, f"{words}.", f"JSON-RPC {error.code}", effect=state)
