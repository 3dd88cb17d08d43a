"""What a caller may do: pure decisions that return a verdict with its reason. Deny by default.

Reading arguments comes before, asking a person and executing after; both are left to `local`.
"""

from bascule.node.rules import Rules
from bascule.node.terms import Allow, Ask, Call, Confirmation, Deny, Operation, Verdict, confirmation_of


def visible(rules: Rules, operation: Operation) -> Verdict:
    """Whether the operation exists for the caller at all. Decided before its arguments are looked at."""
    entry = rules.allowing(operation.name)
    if entry is None:
        return Deny("no rule allows it", detail=f"no entry of the allowlist matches {operation.name}")
    return Allow(f"allowed by {entry}")


def decide(rules: Rules, call: Call) -> Verdict:
    """Decide over a call that was seen and read. Total: every call gets a verdict.

    1. What is not visible is denied, again: a listing is a courtesy, this is the decision.
    2. A preview has no effect and is allowed.
    3. `confirm` needs `confirm: true`; `human` needs a person; the rest is allowed by its rule.
    """
    seen = visible(rules, call.operation)  # 1
    if not isinstance(seen, Allow):
        return seen
    if call.dry_run:  # 2
        return Allow(f"{seen.reason}; a preview")
    match confirmation_of(call.operation):  # 3
        case Confirmation.CONFIRM if not call.confirm:
            return Deny(
                f"{call.operation.name} changes this machine and was not confirmed. Call it again with "
                "`confirm: true`, or with `dry_run: true` to see what it would do.",
                detail="not confirmed",
            )
        case Confirmation.HUMAN:
            return Ask(f"{call.caller.name} asks to run {call.operation.name}", reason="a person must say yes")
        case _:
            return seen
