"""Which protocol revisions are served where, and how one that is not available is refused.

Opening a conversation is the SDK's; what a revision can carry is left to `translate`.
"""

from typing import Any, Final

from mcp import MCPError

MODERN: Final = "2026-07-28"
"""The stateless revision, the only one between bridge and controller."""

INITIALIZE_ERA: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions that open with `initialize`, oldest first."""

UNSUPPORTED_VERSION: Final = -32022
"""UnsupportedProtocolVersion (MCP 2026-07-28, versioning)."""

HEADER_MISMATCH: Final = -32020
"""HeaderMismatch (MCP 2026-07-28, Streamable HTTP, server validation)."""


def refuse_initialize(requested: object) -> MCPError:
    """Return the refusal of a version where `initialize` is served (decision 4): exact words, no counter-offer."""
    shown = requested if isinstance(requested, str) else ""
    return MCPError(
        UNSUPPORTED_VERSION,
        f"Protocol version '{shown[:64]}' is not available through the initialize handshake.",
        {"supported": list(INITIALIZE_ERA), "requested": shown[:64]},
    )


def unserved_opening(requested: str) -> dict[str, Any]:
    """Return the error object for an opening that is not served at all: the HTTP default (decision 4)."""
    return {
        "code": UNSUPPORTED_VERSION,
        "message": f"Protocol version '{requested[:64]}' is not served here: this endpoint speaks {MODERN} only, "
        "without initialize. Older clients connect through `bascule bridge`.",
        "data": {"supported": [MODERN], "requested": requested[:64]},
    }
