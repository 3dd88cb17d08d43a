"""Runs a program's main coroutine on the loop we use: uvloop where there is one.

What the program is, is left to `controller` and `bridge`.
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run `main` to its end; return what it returns."""
    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop

    return uvloop.run(main)
