"""Capabilities from other distributions, by entry point of the group `bascule.capabilities`.

Which are enabled is left to the settings: an installed plug-in that is not named there is not even imported.
"""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from bascule.node.capability import Capability
from bascule.node.errors import InvalidOperationError

GROUP: Final = "bascule.capabilities"

_SURFACE: Final = ("category", "operations", "can_handle", "execute", "plan")


def load(enabled: Sequence[str]) -> list[Capability]:
    """Return the capabilities named in `enabled`, in that order. Each entry point is a callable without arguments.

    Raises:
        InvalidOperationError: one is not installed, cannot be imported, or does not give a capability.
    """
    installed = {point.name: point for point in entry_points(group=GROUP)}
    return [_load(name, installed) for name in enabled]


def _load(name: str, installed: dict[str, EntryPoint]) -> Capability:
    point = installed.get(name)
    if point is None:
        known = ", ".join(sorted(installed)) or "none"
        raise InvalidOperationError(f"plug-in {name} is not installed in this environment (installed: {known})")
    source = f"plug-in {name} of {point.dist.name if point.dist else 'an unknown distribution'}"
    try:
        made: Any = point.load()()
    except Exception as error:  # a plug-in's module may raise anything while it is imported
        raise InvalidOperationError(f"{source} cannot be loaded: {type(error).__name__}: {error}") from error
    missing = [part for part in _SURFACE if not hasattr(made, part)]
    if missing:
        raise InvalidOperationError(f"{source} gives no capability: it lacks {', '.join(missing)}")
    capability: Capability = made
    return capability
