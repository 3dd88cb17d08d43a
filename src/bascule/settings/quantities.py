"""Durations and sizes as people write them in settings. Pure.

Which limits a quantity has is left to the setting that takes it.
"""

import re
from typing import Final

DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h)")
SIZE: Final = re.compile(r"([0-9]{1,9})(B|KiB|MiB)")

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES: Final = {"B": 1, "KiB": 1024, "MiB": 1024 * 1024}


def duration(value: object) -> float:
    """Return the seconds that `value` says: a whole number and its unit, such as "250ms", "30s", "2m", "1h".

    Raises:
        ValueError: anything else, with what would be right.
    """
    match = DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a duration is a whole number with its unit, in quotes: "250ms", "30s", "2m" or "1h"')
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds <= 0:
        raise ValueError("a duration must be longer than nothing")
    return seconds


def size(value: object) -> int:
    """Return the bytes that `value` says: a whole number, or one with its unit, such as "64KiB" or "1MiB".

    Raises:
        ValueError: anything else, with what would be right.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise ValueError('a size is a number of bytes, or in quotes with its unit: "64KiB", "1MiB"')
    return int(match[1]) * _BYTES[match[2]]
