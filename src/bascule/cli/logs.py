"""What the programs say on stderr besides their answers: nothing while all is well, more where BASCULE_LOG asks for it.

What is logged is left to the parts; secrets never are.
"""

import logging
import os
import sys
from typing import Final

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


def set_up(*, quiet: str = "WARNING") -> None:
    """Log on stderr at the level of `BASCULE_LOG`, else at `quiet`; `info` shows each request of a controller."""
    wanted = os.environ.get("BASCULE_LOG", "").upper()
    logging.basicConfig(
        level=logging.ERROR, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("bascule").setLevel(wanted if wanted in LEVELS else quiet)
    # Their lines repeat, in other words, what ours say or refuse already.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
