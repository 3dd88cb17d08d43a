"""Settings become operations: what this machine has built in, what its owner declared, and enabled plug-ins.

Serving them is left to `controller`. Nothing here needs the SDK, so that a mistake in the settings is told at once.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

from bascule.capabilities import plugins
from bascule.capabilities.declared import Declared, DeclaredCommand, InvalidDeclarationError
from bascule.capabilities.device import Device
from bascule.capabilities.which import Which
from bascule.node.capability import Capability
from bascule.node.errors import InvalidOperationError
from bascule.node.registry import Registry
from bascule.node.terms import Confirmation, Effect
from bascule.redaction import mask
from bascule.settings import OperationSettings, Problem, Settings, SettingsError

_IN_SCHEMA: Final = re.compile(r"\bat /properties/([A-Za-z_]\w*)(?:/(\w+))?")
"""The place of a fault in the schema that an operation's arguments make together."""


def check(settings: Settings) -> None:
    """Look at every declared operation by itself.

    Raises:
        SettingsError: with all that cannot work as written.
    """
    found = [_problem(settings, name, operation) for name, operation in settings.operations.items()]
    problems = [problem for problem in found if problem is not None]
    if problems:
        raise SettingsError(settings.path, sorted(problems, key=lambda problem: problem.line or 0))


def registry(settings: Settings, extra: Sequence[Capability] = ()) -> Registry:
    """Return the live registry of everything the settings and `extra` name.

    Raises:
        SettingsError: an operation cannot be registered, with its line where it has one.
    """
    check(settings)
    registered = Registry()
    try:
        for capability in _capabilities(settings, extra):
            registered.add(capability)
    except InvalidOperationError as error:
        # What `check` passed can only collide with what is built in, or be a plug-in's fault.
        taken = next((name for name in settings.operations if str(error).startswith(f"{name} is offered twice")), None)
        key = ("operations", taken) if taken else ("plugins", "enabled")
        raise SettingsError(settings.path, [settings.problem(*key, words=str(error))]) from None
    return registered


def _capabilities(settings: Settings, extra: Sequence[Capability]) -> list[Capability]:
    declared = [_declared(name, operation) for name, operation in settings.operations.items()]
    commands = Declared(declared, environ=os.environ, redact=mask)
    return [Device(), Which(os.environ), commands, *plugins.load(settings.plugins.enabled), *extra]


def _problem(settings: Settings, name: str, operation: OperationSettings) -> Problem | None:
    try:
        Registry().add(Declared([_declared(name, operation)], environ=os.environ))
    except InvalidDeclarationError as error:
        words = str(error).removeprefix(f"{name}: ")
        return settings.problem("operations", name, *error.key, words=words)
    except InvalidOperationError as error:
        words = str(error).removeprefix(f"{name}: ")
        place = _IN_SCHEMA.search(words)
        key = ("arguments", *(step for step in place.groups() if step)) if place else ()
        return settings.problem("operations", name, *key, words=words)
    return None


def _declared(name: str, operation: OperationSettings) -> DeclaredCommand:
    return DeclaredCommand(
        name=name,
        description=operation.description,
        command=tuple(operation.command),
        effect=Effect(operation.effect),
        title=operation.title,
        arguments=operation.arguments,
        cwd=operation.cwd,
        environment=tuple(operation.environment),
        timeout=operation.timeout,
        output_cap=operation.output_cap,
        output=operation.output,
        confirmation=Confirmation(operation.confirmation) if operation.confirmation else None,
    )
