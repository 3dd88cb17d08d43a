"""Whom the bridge expects to meet: names and versions, read from text and compared. Pure functions.

Asking a server who it is is left to `remote`. Name and version find mistakes, not impostors (decision 8).
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

import bascule
from bascule.node.terms import Category, Refused

EXPECT: Final = "bascule/expect"
"""Member of a call's `_meta`: whom its sender means, as written (decision 8)."""

ANY: Final = "*"
"""In an item, for the name or for the version: whatever it is."""

MAX_ITEMS: Final = 32
"""Items of one expectation: a fleet in the middle of an upgrade has two; they ride on every request."""

MAX_ITEM: Final = 256
"""Characters of one item."""

_MAX_SHOWN: Final = 80
"""Characters of what a server calls itself that are said back: it is the server's own text."""

_OPERATORS: Final = "<>=!~"


class ExpectationError(ValueError):
    """An item cannot be read; the text says which and what would be right."""


@dataclass(frozen=True, slots=True)
class Item:
    """One `NAME@VERSION`: a name or any, and exact versions or one range."""

    text: str
    name: str
    exact: frozenset[str] = frozenset()
    """Versions that fit letter by letter; empty where a range or any version is meant."""
    range: SpecifierSet | None = None
    """PEP 440 specifiers that all must hold."""

    def fits_name(self, name: str) -> bool:
        return self.name in (ANY, name)

    def fits_version(self, version: str) -> bool:
        if self.range is not None:
            try:
                return self.range.contains(Version(version), prereleases=True)
            except InvalidVersion:
                return False
        return not self.exact or version in self.exact


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a server is the expected one; `reason` is fit for a person and empty when it is."""

    fits: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One or more items, of which any may fit."""

    items: tuple[Item, ...]

    @property
    def texts(self) -> list[str]:
        """The items as written: what travels with each request in `_meta["bascule/expect"]`."""
        return [item.text for item in self.items]

    def check(self, name: object, version: object) -> Verdict:
        """Compare what a server says of itself; anything but two strings fits nothing."""
        if not isinstance(name, str) or not isinstance(version, str):
            return Verdict(False, "the server does not say who it is")
        named = [item for item in self.items if item.fits_name(name)]
        if any(item.fits_version(version) for item in named):
            return Verdict(True)
        wanted = " or ".join(self.texts)
        what = "another version" if named else "another server"
        return Verdict(False, f"{what}: it is {_shown(name)}@{_shown(version)}, expected was {wanted}")


def parse(texts: Iterable[str], *, own_version: str = bascule.__version__) -> Expectation:
    """Return the expectation that `texts` (`NAME@VERSION` each) say; none say any name in exactly `own_version`.

    A version is exact (`1.4.2`), a list (`1.4.2,1.5.0`), a range (`>=1.4,<1.6`, PEP 440) or `*`. A name without a
    version means exactly `own_version`.

    Raises:
        ExpectationError: an item is empty, too long, mixes a range with exact versions, or is no range at all.
    """
    read = [_item(text.strip(), own_version) for text in texts]
    if len(read) > MAX_ITEMS:
        raise ExpectationError(f"{len(read)} expectations are more than {MAX_ITEMS}")
    return Expectation(tuple(read) or (_item(f"{ANY}@{own_version}", own_version),))


def _item(text: str, own_version: str) -> Item:
    if not text or len(text) > MAX_ITEM or not text.isprintable():
        raise ExpectationError(
            f"an expectation is NAME@VERSION of at most {MAX_ITEM} characters, such as gpu-box@1.4.2"
        )
    name, at, version = (part.strip() for part in text.rpartition("@"))
    if not at:
        name, version = version, own_version
    if not name or not version:
        raise ExpectationError(f"{text!r} lacks its name or version; write NAME@VERSION, or * for any")
    if version == ANY:
        return Item(f"{name}@{ANY}", name)
    return _versioned(name, version)


def _versioned(name: str, version: str) -> Item:
    text = f"{name}@{version}"
    parts = [part.strip() for part in version.split(",")]
    ranged = [part for part in parts if part[:1] in _OPERATORS and part]
    if not ranged and all(parts):
        return Item(text, name, exact=frozenset(parts))
    if len(ranged) != len(parts):
        raise ExpectationError(f"{text!r} mixes a range with exact versions; give them as two expectations")
    try:
        return Item(text, name, range=SpecifierSet(version))
    except InvalidSpecifier:
        raise ExpectationError(f"{text!r} is no range of versions; write it like {name}@>=1.4,<1.6") from None


def _shown(text: str) -> str:
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable if len(printable) <= _MAX_SHOWN else printable[:_MAX_SHOWN] + "..."


def unexpected(params: Mapping[str, Any], own: tuple[str, str] | None) -> Refused | None:
    """Return the refusal of a call that was meant for another server or version than `own`; None where it fits.

    A call without an expectation fits, and so does every call where `own` is None. An expectation that cannot be read is
    refused: it was meant to keep something from happening.
    """
    meta = params.get("_meta")
    wanted = meta.get(EXPECT) if isinstance(meta, Mapping) else None
    if own is None or wanted is None:
        return None
    if not isinstance(wanted, list) or not wanted or not all(isinstance(text, str) for text in wanted):
        return Refused(Category.INVALID_REQUEST, f"{EXPECT} must be a list of NAME@VERSION")
    try:
        verdict = _parsed(tuple(wanted)).check(*own)
    except ExpectationError as error:
        return Refused(Category.INVALID_REQUEST, f"{EXPECT}: {error}")
    if verdict.fits:
        return None
    what, _, details = verdict.reason.partition(": ")
    words = f"The call was meant for {what}: {details}; nothing was executed"
    return Refused(Category.CONFLICT, words, verdict.reason)


@functools.lru_cache(maxsize=64)  # the same few items ride on every call
def _parsed(texts: tuple[str, ...]) -> Expectation:
    return parse(texts)
