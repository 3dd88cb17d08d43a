"""Takes secrets out of text: values that are known to be secret, and shapes that only secrets have. Pure, linear time.

Which values are secret is left to the caller; values under sensitive keys come with the next issue.
"""

import re
from collections.abc import Sequence
from typing import Final

MASK: Final = "<redacted>"

MIN_SECRET: Final = 6
"""Characters below which a value is not masked: masking `1` or `true` wherever it stands would destroy the text."""

_SHAPES: Final = re.compile(
    r"bsc_[a-z][a-z0-9-]{0,31}_[A-Za-z0-9_-]{43}"  # ours
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"  # AWS access key ids
    r"|\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{22,255}\b"  # GitHub
    r"|\bsk-[A-Za-z0-9_-]{20,255}"  # model providers
    r"|\bhf_[A-Za-z0-9]{20,255}\b"
)


def mask(text: str, secrets: Sequence[str] = ()) -> str:
    """Return `text` with every one of `secrets`, and every credential of a well-known shape, masked."""
    # Longest first: a secret that holds another one must not leave its tail behind.
    for secret in sorted({secret for secret in secrets if len(secret) >= MIN_SECRET}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _SHAPES.sub(MASK, text)
