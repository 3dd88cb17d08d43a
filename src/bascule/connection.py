"""How to reach a controller from this machine: plain values that commands hand to `assembly`.

Reading the token is left to `credentials`, judging the address and the answer to `protocol`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

DEFAULT_TOKEN_VARIABLE: Final = "BASCULE_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class Connection:
    """Where, with which token, and who is expected there."""

    url: str
    token_env: str = DEFAULT_TOKEN_VARIABLE
    token_file: Path | None = None
    """Wins over the variable where it is given."""
    expect: tuple[str, ...] = ()
    """`NAME@VERSION` items; empty means any name at exactly this product's version."""
    offer_fallback: bool = False
    """Whether an unavailable version at `initialize` gets a counter-offer instead of a refusal."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answered."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Called:
    """What came of one call: the result as MCP has it."""

    result: dict[str, Any] = field(default_factory=dict)

    @property
    def category(self) -> str:
        """The category of a failure, or `none`."""
        meta = self.result.get("_meta")
        stated = meta.get("bascule/category") if isinstance(meta, dict) else None
        return str(stated) if stated else "other" if self.result.get("isError") else "none"

    @property
    def text(self) -> str:
        """What a person reads."""
        blocks = [block for block in self.result.get("content", []) if isinstance(block, dict)]
        return "\n".join(str(block["text"]) for block in blocks if block.get("type") == "text" and "text" in block)
