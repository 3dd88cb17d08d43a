"""The hops of `bascule doctor` that lie on this machine: settings, operations, callers, modes, the bind.

The hops to a controller, this one's or another's, are left to `doctor`.
"""

import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bascule.cli.exits import Exit
from bascule.settings import Settings, SettingsError, find_config, load


@dataclass(frozen=True, slots=True)
class Finding:
    """One hop."""

    hop: str
    ok: bool
    words: str
    code: int = Exit.DONE


def own_hops(config: Path | None) -> Iterator[Finding]:
    """Yield a finding for each; the walk ends at the first that failed."""
    try:
        settings = load(find_config(config, os.environ))
    except SettingsError as error:
        yield Finding("settings", False, str(error), Exit.USAGE)
        return
    yield Finding("settings", True, str(settings.path))
    yield from _operations(settings)
    yield _callers(settings)
    yield _modes(settings)
    yield _bind(settings)
    yield from _system()


def _operations(settings: Settings) -> Iterator[Finding]:
    from bascule.assembly import operations

    try:
        entries = operations.registry(settings).entries
    except SettingsError as error:
        yield Finding("operations", False, str(error), Exit.USAGE)
        return
    yield Finding("operations", True, f"{len(entries)} registered")
    yield from _allowed(settings, [entry.operation.name for entry in entries])


def _allowed(settings: Settings, names: Sequence[str]) -> Iterator[Finding]:
    """Tell of entries that allow nothing: mostly a name mistyped, and nothing else would ever say so."""
    from bascule.node.rules import allowlist

    for position, entry in enumerate(settings.policy.allow):
        rules = allowlist([entry])
        if not any(rules.allowing(name) for name in names):
            line = settings.locate("policy", "allow", position)
            yield Finding(
                "policy", True, f"{settings.path}:{line}: {entry!r} allows nothing: no operation has such a name"
            )
    if not settings.policy.allow:
        yield Finding("policy", True, f"{settings.path}: [policy] allow is empty, so callers see nothing")


def _callers(settings: Settings) -> Finding:
    from bascule.callers import CallersError, names_in

    try:
        names = names_in(settings.callers_file)
    except CallersError as error:
        return Finding("callers", False, str(error), Exit.USAGE)
    mend = f"{settings.callers_file} has no caller; `bascule token create NAME` makes one"
    return Finding("callers", bool(names), ", ".join(names) or mend, Exit.DONE if names else Exit.USAGE)


def _modes(settings: Settings) -> Finding:
    """Judge who else could change what decides; who else may read a token is judged where the token is read."""
    places = [settings.path.parent, settings.path, settings.callers_file, settings.credentials]
    if os.name == "posix":
        for place in places:
            if place.exists() and stat.S_IMODE(place.stat().st_mode) & 0o022:
                words = f"others may change {place}; mend it with: chmod go-w {shlex.quote(str(place))}"
                return Finding("modes", False, words, Exit.USAGE)
    return Finding("modes", True, f"only the owner can change {settings.path.parent}")


def _bind(settings: Settings) -> Finding:
    from bascule import binding

    own = settings.controller
    try:
        bind = binding.assess(own.host, own.port, public=own.public_bind)
    except binding.BindRefusedError as error:
        return Finding("bind", False, str(error), Exit.USAGE)
    plain = "" if bind.reach == "loopback" else "; without TLS, whoever is on the way can read what passes"
    return Finding("bind", True, f"{own.host} is {bind.reach}{plain}")


def _system() -> Iterator[Finding]:
    from bascule.platform import processes

    for missing in processes.missing_guarantees():
        yield Finding("system", True, f"not given here: {missing}")
