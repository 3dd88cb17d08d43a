"""The vocabulary of policy: names and globs of operations that callers may use. Pure data and matching.

What a verdict follows from them is left to `policy`; where they come from to `settings` and `assembly`.
"""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bascule.node.errors import NodeError

_ENTRY: Final = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9_.*-]{0,63}")


class InvalidRuleError(NodeError):
    """An allowlist entry that is neither an operation's name nor a glob over names."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may use what. Empty means nothing: there is no rule that allows by being absent."""

    names: frozenset[str] = frozenset()
    globs: tuple[str, ...] = ()

    def allowing(self, name: str) -> str | None:
        """Return the entry that allows operation `name`, or None."""
        if name in self.names:
            return name
        return next((glob for glob in self.globs if _matches(glob, name)), None)


def allowlist(entries: Iterable[str]) -> Rules:
    """Return rules that allow exactly `entries`: names, or globs whose `*` stands for any run of characters.

    `device.*` allows `device.info`; a `*` crosses dots, so `*` alone allows everything and reads as such.

    Raises:
        InvalidRuleError: an entry no operation could ever be named by.
    """
    names, globs = set(), []
    for entry in entries:
        if not _ENTRY.fullmatch(entry):
            raise InvalidRuleError(f"{entry[:64]!r} is not an operation's name or a glob such as `device.*`")
        if "*" in entry:
            globs.append(entry)
        else:
            names.add(entry)
    return Rules(frozenset(names), tuple(globs))


@functools.lru_cache(maxsize=4096)  # asked for the names of this node alone, again for every call
def _matches(glob: str, name: str) -> bool:
    """Whether `name` fits `glob`, in time linear in both (greedy, leftmost), unlike a translated regular expression."""
    first, *rest = glob.split("*")
    if not name.startswith(first):
        return False
    if rest == [""]:
        return True
    at = len(first)
    *middle, last = rest
    for part in middle:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(name) - at >= len(last) and name.endswith(last)
