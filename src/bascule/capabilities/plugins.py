"""Capabilities from other distributions, by entry point of the group `bascule.capabilities`.

Which are enabled is left to the settings: an installed plug-in that is not named there is not even imported.
"""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from bascule.node.capability import Capability
from bascule.node.errors import InvalidOperationError
from bascule.node.terms import Operation

GROUP: Final = "bascule.capabilities"

_SURFACE: Final = ("category", "operations", "can_handle", "execute", "plan")


def load(enabled: Sequence[str]) -> list[Capability]:
    """Return the capabilities named in `enabled`, in that order. Each entry point is a callable without arguments.

    Raises:
        InvalidOperationError: one is not installed, is offered by two distributions, cannot be imported, or does not give
            a capability.
    """
    installed = tuple(entry_points(group=GROUP))
    return [_load(_found(name, installed)) for name in enabled]


def _found(name: str, installed: Sequence[EntryPoint]) -> EntryPoint:
    points = [point for point in installed if point.name == name]
    if not points:
        known = ", ".join(sorted({point.name for point in installed})) or "none"
        raise InvalidOperationError(f"plug-in {name} is not installed in this environment (installed: {known})")
    if len(points) > 1:
        # Which one is meant cannot be known, and the wrong one would run with all our rights.
        offering = " and ".join(sorted(_distribution(point) for point in points))
        raise InvalidOperationError(f"plug-in {name} is offered by {offering}; uninstall all but one")
    return points[0]


def _load(point: EntryPoint) -> Capability:
    source = f"plug-in {point.name} of {_distribution(point)}"
    try:
        made: Any = point.load()()
        missing = [part for part in _SURFACE if not hasattr(made, part)]
        fits = not missing and all(isinstance(operation, Operation) for operation in made.operations())
    except (Exception, SystemExit) as error:  # a plug-in may raise anything while it is imported, made and asked
        raise InvalidOperationError(f"{source} cannot be loaded: {type(error).__name__}: {error}") from error
    if not fits:
        lacking = f"it lacks {', '.join(missing)}" if missing else "its operations are not of bascule.node.terms"
        raise InvalidOperationError(f"{source} gives no capability: {lacking}")
    capability: Capability = made
    return capability


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown distribution"
