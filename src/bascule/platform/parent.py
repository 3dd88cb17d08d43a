"""Notices when the process that started this one has died.

What is done then is left to whoever asks; the bridge ends.
"""

import asyncio
import os
from typing import Final

POLL: Final = 1.0
"""Seconds between looks where the system has no event for it."""


async def parent_gone() -> None:
    """Return once the parent of this process is dead; never where there is none to watch."""
    parent = os.getppid()
    if parent <= 1:
        await asyncio.Event().wait()
    try:
        descriptor = os.pidfd_open(parent)
    except (AttributeError, OSError):
        while os.getppid() == parent:  # noqa: ASYNC110 - this system has no event for a parent's death
            await asyncio.sleep(POLL)
        return
    loop, died = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, died.set)
    try:
        if os.getppid() == parent:
            await died.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
