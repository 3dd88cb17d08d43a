"""The words of the node: operations, invocations, verdicts, outcomes, answers.

They are plain frozen data. Who decides over them is `policy`, who runs them `execution`, who translates them `protocol`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NewType, Protocol, TypeAlias

from bascule.identity import Caller

JsonValue: TypeAlias = Any
"""None, bool, int, float, str, list or dict of these; finite, member order kept (see `wire`)."""

JsonObject: TypeAlias = dict[str, Any]

Revision = NewType("Revision", int)
"""Grows by at least one whenever an offer changes; comparable only within one node and process."""

DEFAULT_TIMEOUT: Final = 50.0
"""Seconds an operation may run when it says nothing: below the 60 s after which common clients give up."""

DEFAULT_OUTPUT_CAP: Final = 1_048_576
"""Bytes of output kept of one run when its operation says nothing (1 MiB)."""


class Kind(StrEnum):
    """What an invocation asks for. Operations are called; the other kinds are here with empty offers."""

    CALL = "call"
    READ = "read"
    GET = "get"
    COMPLETE = "complete"


class Effect(StrEnum):
    """What an operation does to the machine; becomes the tool's annotations."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


class Confirmation(StrEnum):
    """What must be said before an operation takes effect.

    `none`: nothing, no control arguments. `preview`: `dry_run` (default true) shows the plan, `dry_run: false` applies.
    `confirm`: `confirm: true` applies, `dry_run: true` shows the plan. `human`: a person on the controller says yes;
    `dry_run: true` shows the plan. A guard against mistakes, not consent, except for `human`.
    """

    NONE = "none"
    PREVIEW = "preview"
    CONFIRM = "confirm"
    HUMAN = "human"


class Category(StrEnum):
    """The fixed categories of outcomes: finite, safe as a tag, never free text."""

    NONE = "none"
    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED_COMMAND = "unsupported_command"
    NODE_BUSY = "node_busy"
    PERMISSION_DENIED = "permission_denied"
    EXEC_POLICY_DENIED = "exec_policy_denied"
    COMMAND_UNAVAILABLE = "command_unavailable"
    CAPABILITY_UNAVAILABLE = "capability_unavailable"
    SANDBOX_DENIED = "sandbox_denied"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    SANDBOX_FAILURE = "sandbox_failure"
    COMMAND_FAILED = "command_failed"
    TIMEOUT = "timeout"
    CAPABILITY_FAILURE = "capability_failure"
    TRANSPORT_FAILURE = "transport_failure"
    INTERNAL_FAILURE = "internal_failure"
    OTHER = "other"
    APPROVAL_PENDING = "approval_pending"
    STORE_UNAVAILABLE = "store_unavailable"
    CONFLICT = "conflict"
    OUTCOME_UNKNOWN = "outcome_unknown"


class Cause(StrEnum):
    """Why a run ended; the first one wins and is recorded before it takes effect."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    DEADLINE = "deadline"
    SHUTDOWN = "shutdown"


class EffectState(StrEnum):
    """How much of the effect took place, as far as is known."""

    NONE = "none"
    COMPLETE = "complete"
    PARTIAL = "may be partial"


class Slots(StrEnum):
    """Which work slots a run takes: those for processes, or those for operations inside the controller."""

    PROCESS = "process"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Passed:
    """An opaque JSON value that only `protocol` makes and opens; the node carries and stores it unread."""

    payload: JsonValue
    receipt: "Receipt" = field(default_factory=lambda: NO_RECEIPT, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be invoked."""

    name: str
    """Dotted and unique on its node, such as `device.info`."""
    description: str
    arguments: JsonObject
    """JSON Schema of the arguments, without control arguments; the root type is object."""
    effect: Effect
    title: str = ""
    result: JsonObject | None = None
    """JSON Schema of a completed value, where it has one."""
    timeout: float = DEFAULT_TIMEOUT
    """Seconds, counted from the moment `execute` is entered."""
    confirmation: Confirmation | None = None
    """None means the default of the effect; read it through `confirmation_of`."""
    slots: Slots = Slots.INTERNAL
    output_cap: int = DEFAULT_OUTPUT_CAP
    """Bytes."""
    definition: Passed | None = None
    """The peer's own tool definition where this operation is another server's, forwarded unread."""


_DEFAULT_CONFIRMATION: Final = {
    Effect.READ: Confirmation.NONE,
    Effect.WRITE: Confirmation.CONFIRM,
    Effect.DESTRUCTIVE: Confirmation.HUMAN,
}


def confirmation_of(operation: Operation) -> Confirmation:
    """Return what `operation` asks for: its own word, else read none, write confirm, destructive human."""
    return operation.confirmation or _DEFAULT_CONFIRMATION[operation.effect]


@dataclass(frozen=True, slots=True)
class Offer:
    """What one caller may see, at one revision. A kind without items is not advertised at all."""

    revision: Revision
    operations: tuple[Operation, ...] = ()
    resources: tuple[Passed, ...] = ()
    templates: tuple[Passed, ...] = ()
    prompts: tuple[Passed, ...] = ()
    set_aside: tuple[tuple[str, str], ...] = ()
    """(name, reason) of definitions that could not be offered; never fatal to the rest."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One request, as the protocol read it. Its arguments are not validated yet: that is the node's first work."""

    id: str
    """The operation id: unique, made by the server that received the request (`new_id`)."""
    caller: Caller
    kind: Kind
    name: str
    arguments: JsonValue
    """As sent, control arguments included; anything but an object is refused by reading."""
    trace: str = ""
    """`X-Request-Id` of the request, for record and log."""
    remaining: float | None = None
    """Seconds the caller is still willing to wait, where it said so (`_meta["bascule/deadlineMs"]`)."""
    key: str | None = None
    """Idempotency key, where one was given."""
    answers: JsonObject = field(default_factory=dict)
    """Answers to questions asked before (`inputResponses`)."""
    if_dropped: Cause = Cause.ABANDONED
    """What it means when `invoke` is cancelled: a stream that closed (abandoned), or a cancel that was said (cancelled)."""
    params: Passed | None = None
    """The request's params as they came, for a node that forwards them."""


@dataclass(frozen=True, slots=True)
class Call:
    """An invocation that was seen, read and allowed: what a capability executes."""

    id: str
    caller: Caller
    operation: Operation
    arguments: JsonObject
    """Validated, defaults filled in, control arguments taken out."""
    dry_run: bool = False
    confirm: bool = False


@dataclass(frozen=True, slots=True)
class Allow:
    reason: str


@dataclass(frozen=True, slots=True)
class Deny:
    reason: str
    """Fit for the caller."""
    category: Category = Category.PERMISSION_DENIED
    detail: str = ""
    """For record and log alone."""


@dataclass(frozen=True, slots=True)
class Ask:
    question: str
    """What the person is asked, in words."""
    reason: str = ""


Verdict: TypeAlias = Allow | Deny | Ask


class Receipt(Protocol):
    """How the server says, exactly once per answer, whether its last byte was handed over.

    Handed over is not received. Both are plain calls: they queue the completion of the record and never raise.
    """

    def delivered(self) -> None: ...

    def undelivered(self, cause: str) -> None: ...


class _NoReceipt:
    """Nobody keeps a record of this answer."""

    def delivered(self) -> None:
        return

    def undelivered(self, cause: str) -> None:
        return


NO_RECEIPT: Final[Receipt] = _NoReceipt()


def _no_receipt() -> Receipt:
    return NO_RECEIPT


@dataclass(frozen=True, slots=True)
class Completed:
    """The operation did what it says. `value` is any JSON value; None means there is nothing to show."""

    value: JsonValue
    applied: bool = True
    """False for a preview: `value` is the plan and nothing took effect."""
    receipt: Receipt = field(default_factory=_no_receipt, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was executed. `message` goes to the peer, `detail` to record and log."""

    category: Category
    message: str
    detail: str = ""
    receipt: Receipt = field(default_factory=_no_receipt, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """Execution was entered and did not end as wished. `value` is what there is to show all the same."""

    category: Category
    message: str
    detail: str = ""
    value: JsonValue = None
    cause: Cause = Cause.COMPLETED
    effect: EffectState = EffectState.PARTIAL
    receipt: Receipt = field(default_factory=_no_receipt, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NeedsAnswer:
    """A person must say yes first; nothing was executed. Its category is `approval_pending`."""

    message: str
    question_id: str = ""
    detail: str = ""
    receipt: Receipt = field(default_factory=_no_receipt, compare=False, repr=False)


Outcome: TypeAlias = Completed | Refused | Failed | NeedsAnswer


@dataclass(frozen=True, slots=True)
class Fault:
    """A JSON-RPC error of another server, or of a method that does not exist: never of an operation's failure."""

    code: int
    message: str
    data: JsonValue = None
    receipt: Receipt = field(default_factory=_no_receipt, compare=False, repr=False)


Answer: TypeAlias = Outcome | Fault | Passed

Progress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]


def category_of(answer: Answer) -> Category:
    """Return the category of `answer` for record and telemetry; `Passed` and `Completed` are `none`."""
    match answer:
        case Refused(category=category) | Failed(category=category):
            return category
        case NeedsAnswer():
            return Category.APPROVAL_PENDING
        case Fault():
            return Category.OTHER
        case Completed() | Passed():
            return Category.NONE
