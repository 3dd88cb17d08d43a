"""`bascule doctor`: walks the way of a call hop by hop, and names what is broken and how to mend it.

It changes nothing; the hops on this machine are left to `doctor_own`, those to a controller are here.
"""

import asyncio
import http.client
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bascule.cli.doctor_own import Finding, own_hops
from bascule.cli.exits import CommandError, Exit, exit_of
from bascule.cli.options import chosen
from bascule.cli.output import say, say_json
from bascule.connection import Connection
from bascule.node.terms import Category
from bascule.protocol.addresses import DEFAULT_PATH, Target, UrlError, read_url

PATIENCE: Final = 5.0
"""Seconds for one hop: a machine on a private network answers in milliseconds or not at all."""

CALL_PATIENCE: Final = 20.0
"""Seconds for the call at the end of the way."""

PROBE: Final = "device.info"
"""Called at the end, where it is offered: it reads, costs nothing, and every controller has it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which way is walked."""

    url: str | None
    token_env: str | None
    token_file: Path | None
    expect: list[str] | None
    config: Path | None


def run(asked: Asked, *, as_json: bool) -> int:
    """Walk until a hop fails; print every finding; return the failing hop's exit code."""
    findings: list[Finding] = []
    for finding in _walk(asked):
        findings.append(finding)
        if not as_json:
            say(f"{'ok  ' if finding.ok else 'FAIL'} {finding.hop}: {finding.words}")
        if not finding.ok:
            break
    if as_json:
        say_json([asdict(finding) for finding in findings])
    return int(findings[-1].code)


def _walk(asked: Asked) -> Iterator[Finding]:
    if asked.url is None:
        yield from own_hops(asked.config)
    try:
        connection = chosen(asked.url, asked.token_env, asked.token_file, asked.expect, asked.config)
        target = read_url(connection.url)
    except CommandError as error:
        yield Finding("options", False, str(error), error.code)
        return
    except UrlError as error:
        yield Finding("address", False, str(error), Exit.USAGE)
        return
    yield Finding("address", True, target.url)
    yield _credential(connection)
    yield _port(target)
    yield from _http(target)
    yield from asyncio.run(_conversation(connection))


def _credential(connection: Connection) -> Finding:
    from bascule.credentials import CredentialError, token_source

    source = token_source(None if connection.token_file else connection.token_env, connection.token_file, os.environ)
    try:
        source()
    except CredentialError as error:
        return Finding("token", False, str(error), Exit.USAGE)
    return Finding("token", True, f"read from {source.place}")


def _port(target: Target) -> Finding:
    where = f"{target.host} port {target.port}"
    try:
        socket.create_connection((target.host, target.port), timeout=PATIENCE).close()
    except OSError as error:
        words = f"nothing answers at {where} ({error.strerror or error}); is `bascule serve` running there?"
        return Finding("port", False, words, Exit.TRANSPORT)
    return Finding("port", True, f"{where} answers")


def _http(target: Target) -> Iterator[Finding]:
    """Ask for the health address, which needs no token: it shows whether HTTP gets through and Host is accepted."""
    path = target.url.split(target.host, 1)[1].partition("/")[2]
    if not f"/{path}".endswith(DEFAULT_PATH):
        return
    probe = f"/{path}".removesuffix(DEFAULT_PATH) + "/healthz"
    try:
        status = _status(target, probe)
    except ssl.SSLError as error:
        yield Finding("tls", False, f"the certificate is not trusted here ({error.reason})", Exit.TRANSPORT)
        return
    except (OSError, http.client.HTTPException) as error:
        words = f"no HTTP comes back ({type(error).__name__}); is this the controller's port?"
        yield Finding("http", False, words, Exit.TRANSPORT)
        return
    yield Finding("http", True, "answers")
    yield _judged(status, probe)


def _status(target: Target, path: str) -> int:
    made = http.client.HTTPSConnection if target.secure else http.client.HTTPConnection
    with closing(made(target.host, target.port, timeout=PATIENCE)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def _judged(status: int, probe: str) -> Finding:
    match status:
        case 421:
            words = "the controller does not answer to this name; add it to `hosts` under [controller] there"
        case 403:
            words = (
                "refused before any token is looked at: by its address or through this proxy; see the controller's log"
            )
        case _ if 300 <= status < 400:
            words = "redirected, and redirects are never followed; give --url the address it should be"
        case _ if status >= 500:
            words = f"answered {status}: draining, busy, or the proxy in between finds no controller"
        case _:
            published = "" if status == 200 else f" ({probe} answered {status}: not published by what is in between)"
            return Finding("host", True, f"accepted{published}")
    return Finding("host", False, words, Exit.TRANSPORT)


async def _conversation(connection: Connection) -> list[Finding]:
    from bascule.assembly import bridge

    findings: list[Finding] = []
    try:
        async with bridge.connect(connection) as session:
            problem = await session.node.verify()
            if problem is not None:
                hop = "token accepted" if problem.category is Category.PERMISSION_DENIED else "identity"
                return [Finding(hop, False, str(problem), Exit.TRANSPORT)]
            seen = await session.identity()
            findings.append(Finding("token accepted", True, "by the controller"))
            findings.append(Finding("identity", True, f"{seen.name} {seen.version}, as expected"))
            tools = await session.tools()
            findings.append(Finding("tools", True, f"{len(tools)} offered to this caller"))
            if any((tool.get("_meta") or {}).get("bascule/operation") == PROBE for tool in tools):
                called = await session.call(PROBE, {}, patience=CALL_PATIENCE)
                good = called.category == "none"
                words = f"{PROBE} answered" if good else called.text
                findings.append(Finding("call", good, words, exit_of(called.category)))
    except bridge.ConnectionRefusedByUsError as error:
        findings.append(Finding("options", False, str(error), Exit.USAGE))
    except bridge.ControllerError as error:
        findings.append(Finding("controller", False, str(error), Exit.TRANSPORT))
    return findings
