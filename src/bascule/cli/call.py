"""`bascule call`: one operation, once.

The way there is left to `assembly`; here arguments become JSON and outcomes exit codes.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bascule import wire
from bascule.cli.exits import CommandError, Exit, exit_of
from bascule.cli.output import say, say_json
from bascule.connection import Called, Connection


@dataclass(frozen=True, slots=True)
class Request:
    """What is called, as the command line has it."""

    name: str
    args: str
    dry_run: bool = False
    confirm: bool = False
    timeout: float | None = None


def run(connect: Callable[[], Connection], request: Request, *, as_json: bool) -> int:
    """Call and print; return the exit code of the outcome.

    Raises:
        CommandError: the arguments are no JSON object, or the controller cannot be used.
    """
    arguments = _arguments(request)
    from bascule.assembly import bridge

    try:
        called = asyncio.run(_call(connect(), request, arguments))
    except bridge.ConnectionRefusedByUsError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except bridge.ControllerError as error:
        raise CommandError(Exit.TRANSPORT, str(error)) from None
    code = exit_of(called.category)
    if as_json:
        say_json(called.result)
    elif code == Exit.DONE:
        say(called.text)
    if code != Exit.DONE:
        say(f"bascule: {called.text}", sys.stderr)
    return code


async def _call(connection: Connection, request: Request, arguments: dict[str, Any]) -> Called:
    from bascule.assembly import bridge

    async with bridge.connect(connection) as session:
        # Said before the call: whoever answers there must be the expected one, and take this token.
        await session.identity()
        return await session.call(request.name, arguments, patience=request.timeout)


def _arguments(request: Request) -> dict[str, Any]:
    try:
        value = wire.read(_source(request.args))
    except wire.WireError as error:
        raise CommandError(Exit.USAGE, f"--args: {error}") from None
    if not isinstance(value, dict):
        raise CommandError(Exit.USAGE, '--args must be a JSON object, such as \'{"service": "vllm"}\'')
    if request.dry_run:
        value["dry_run"] = True
    if request.confirm:
        value["confirm"] = True
    return value


def _source(args: str) -> bytes:
    if args == "-":
        return sys.stdin.buffer.read()
    if not args.startswith("@"):
        return args.encode("utf-8", "surrogateescape")
    try:
        return Path(args[1:]).read_bytes()
    except OSError as error:
        raise CommandError(Exit.USAGE, f"--args: {args[1:]} cannot be read: {error.strerror}") from None
