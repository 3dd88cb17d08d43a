"""`bascule tools`: what this caller may use.

Fetching it is left to `assembly`.
"""

import asyncio
import textwrap
from typing import Any

from bascule.cli.exits import CommandError, Exit
from bascule.cli.output import say, say_json
from bascule.connection import Connection


def run(connection: Connection, *, as_json: bool) -> int:
    """Print the list.

    Raises:
        CommandError: the controller does not answer, or is another one than expected.
    """
    from bascule.assembly import bridge

    try:
        tools = asyncio.run(_tools(connection))
    except bridge.ConnectionRefusedByUsError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except bridge.ControllerError as error:
        raise CommandError(Exit.TRANSPORT, str(error)) from None
    if as_json:
        say_json(tools)
    else:
        say(_table(tools))
    return Exit.DONE


async def _tools(connection: Connection) -> list[dict[str, Any]]:
    from bascule.assembly import bridge

    async with bridge.connect(connection) as session:
        return await session.tools()


def _table(tools: list[dict[str, Any]]) -> str:
    rows = []
    for tool in tools:
        meta = tool.get("_meta") or {}
        name = str(meta.get("bascule/operation", tool.get("name")))
        effect = str(meta.get("bascule/effect", "-"))
        confirmation = str(meta.get("bascule/confirmation", "-"))
        says = textwrap.shorten(str(tool.get("description", "")), 70, placeholder=" ...")
        rows.append((name, effect, confirmation, says))
    if not rows:
        return "Nothing is allowed to this caller: [policy] allow of the controller decides that."
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(row[:3], widths, strict=True)), row[3]]) for row in rows
    )
