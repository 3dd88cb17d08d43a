"""`bascule doctor`: walks the way of a call hop by hop, and names what is broken and how to mend it.

It changes nothing; what each hop requires is left to the part that requires it.
"""

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bascule.cli.exits import CommandError, Exit, exit_of
from bascule.cli.options import chosen
from bascule.connection import Connection
from bascule.settings import Settings, SettingsError, find_config, load


@dataclass(frozen=True, slots=True)
class Asked:
    """Which way is walked."""

    url: str | None
    token_env: str | None
    token_file: Path | None
    expect: list[str] | None
    config: Path | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One hop."""

    hop: str
    ok: bool
    words: str
    code: int = Exit.DONE


def run(asked: Asked, *, as_json: bool) -> int:
    """Walk until a hop fails; print every finding; return the failing hop's exit code."""
    findings: list[Finding] = []
    for finding in _walk(asked):
        findings.append(finding)
        if not as_json:
            print(f"{'ok  ' if finding.ok else 'FAIL'} {finding.hop}: {finding.words}")
        if not finding.ok:
            break
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    return findings[-1].code if not findings[-1].ok else Exit.DONE


def _walk(asked: Asked) -> Iterator[Finding]:
    if asked.url is None:
        try:
            settings = load(find_config(asked.config, os.environ))
        except SettingsError as error:
            yield Finding("settings", False, str(error), Exit.USAGE)
            return
        yield Finding("settings", True, str(settings.path))
        yield from _own(settings)
    try:
        connection = chosen(asked.url, asked.token_env, asked.token_file, asked.expect, asked.config)
    except CommandError as error:
        yield Finding("options", False, str(error), error.code)
        return
    yield _credential(connection)
    yield _port(connection)
    yield from asyncio.run(_conversation(connection))


def _own(settings: Settings) -> Iterator[Finding]:
    from bascule import binding
    from bascule.assembly import controller
    from bascule.callers import CallersFile
    from bascule.platform import processes

    try:
        entries = controller.registry(settings).entries
    except SettingsError as error:
        yield Finding("operations", False, str(error), Exit.USAGE)
        return
    yield Finding("operations", True, f"{len(entries)} registered")
    try:
        bind = binding.assess(
            settings.controller.host, settings.controller.port, public=settings.controller.public_bind
        )
    except binding.BindRefusedError as error:
        yield Finding("bind", False, str(error), Exit.USAGE)
        return
    plain = (
        "; without TLS, whoever runs programs on this machine can read what passes" if bind.reach == "loopback" else ""
    )
    yield Finding("bind", True, f"{settings.controller.host} is {bind.reach}{plain}")
    names = CallersFile(settings.callers_file).names()
    mend = f"{settings.callers_file} has no caller; `bascule token create NAME` makes one"
    yield Finding("callers", bool(names), ", ".join(names) or mend, Exit.DONE if names else Exit.USAGE)
    for missing in processes.missing_guarantees():
        yield Finding("system", True, f"not given here: {missing}")


def _credential(connection: Connection) -> Finding:
    from bascule.credentials import CredentialError, token_source

    try:
        token_source(None if connection.token_file else connection.token_env, connection.token_file, os.environ)()
    except CredentialError as error:
        return Finding("token", False, str(error), Exit.USAGE)
    source = str(connection.token_file) if connection.token_file else f"variable {connection.token_env}"
    return Finding("token", True, f"read from {source}")


def _port(connection: Connection) -> Finding:
    parts = urlsplit(connection.url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        words = f"nothing answers at {host}:{port} ({error.strerror or error}); is `bascule serve` running there?"
        return Finding("port", False, words, Exit.TRANSPORT)
    return Finding("port", True, f"{host}:{port} answers")


async def _conversation(connection: Connection) -> list[Finding]:
    from bascule.assembly import bridge

    findings: list[Finding] = []
    try:
        async with bridge.connect(connection) as session:
            seen = await session.identity()
            findings.append(Finding("identity", True, f"{seen.name} {seen.version}, as expected"))
            tools = await session.tools()
            findings.append(Finding("tools", True, f"{len(tools)} offered to this caller"))
            if any(tool.get("name") == "device_info" for tool in tools):
                called = await session.call("device.info", {}, patience=20)
                good = called.category == "none"
                words = "device.info answered" if good else called.text
                findings.append(Finding("call", good, words, exit_of(called.category)))
    except bridge.ConnectionRefusedByUsError as error:
        findings.append(Finding("address", False, str(error), Exit.USAGE))
    except bridge.ControllerError as error:
        findings.append(Finding("controller", False, str(error), Exit.TRANSPORT))
    return findings
