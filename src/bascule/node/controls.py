"""Control arguments: `dry_run` and `confirm`, in the schemas of operations that have them and of no other.

What they lead to is decided in `policy`; here they are put into a schema and taken out of arguments again.
"""

from typing import Final

from bascule.node.errors import InvalidOperationError
from bascule.node.terms import Confirmation, JsonObject, Operation, confirmation_of

DRY_RUN: Final = "dry_run"
CONFIRM: Final = "confirm"

_SHOW: Final = "true shows exactly what would be done and does nothing"
_CONTROLS: Final[dict[Confirmation, JsonObject]] = {
    Confirmation.NONE: {},
    Confirmation.PREVIEW: {
        DRY_RUN: {"type": "boolean", "default": True, "description": f"{_SHOW}; say false to do it"},
    },
    Confirmation.CONFIRM: {
        DRY_RUN: {"type": "boolean", "default": False, "description": _SHOW},
        CONFIRM: {"type": "boolean", "default": False, "description": "true does it; without it the call is refused"},
    },
    Confirmation.HUMAN: {
        DRY_RUN: {"type": "boolean", "default": False, "description": f"{_SHOW}; doing it needs a person's yes"},
    },
}


def with_controls(operation: Operation) -> JsonObject:
    """Return the schema of what a caller sends: the operation's own arguments and its control arguments, closed.

    Raises:
        InvalidOperationError: the root is not an object schema, or an argument has the name of a control argument.
    """
    schema = dict(operation.arguments)
    if schema.get("type") != "object":
        raise InvalidOperationError(f"{operation.name}: the schema of its arguments must have `type: object`")
    controls = _CONTROLS[confirmation_of(operation)]
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise InvalidOperationError(f"{operation.name}: `properties` must be an object")
    taken = sorted(set(properties) & {DRY_RUN, CONFIRM}) if confirmation_of(operation) is not Confirmation.NONE else []
    if taken:
        raise InvalidOperationError(f"{operation.name}: {taken[0]} is a control argument; give its own another name")
    schema["properties"] = {**properties, **controls}
    # Closed unless it says otherwise: an argument nobody declared is a mistake, not something to drop in silence.
    schema.setdefault("additionalProperties", False)
    return schema


def split(operation: Operation, arguments: JsonObject) -> tuple[JsonObject, bool, bool]:
    """Return (own arguments, dry_run, confirm) of arguments that were read and completed with defaults."""
    controls = _CONTROLS[confirmation_of(operation)]
    if not controls:
        return arguments, False, False
    own = {name: value for name, value in arguments.items() if name not in controls}
    # Only the JSON booleans count; the schema let nothing else through.
    dry_run = controls.get(DRY_RUN) is not None and arguments.get(DRY_RUN, controls[DRY_RUN]["default"]) is True
    confirm = CONFIRM in controls and arguments.get(CONFIRM) is True
    return own, dry_run, confirm
