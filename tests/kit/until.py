"""Waiting for what happens in another process and raises no event here, always under a deadline."""

import asyncio
from collections.abc import Callable

PATIENCE = 30.0
"""Seconds: far over what any single step needs, under the test's own limit."""


async def until(condition: Callable[[], object], *, within: float = PATIENCE) -> None:
    """Return once `condition` holds.

    Raises:
        TimeoutError: it did not within `within` seconds.
    """
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - another process has no event to give
            await asyncio.sleep(0.01)
