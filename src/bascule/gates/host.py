"""Gate 7: exactly one `Host`, naming this controller.

A page on a foreign name can be made to reach a loopback port (DNS rebinding), but it cannot choose this header.
"""

import re
from collections.abc import Iterable
from typing import Final

from bascule.gates.gate import REFUSED, App, Receive, Scope, Send, fields, refuse

GRAMMAR: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
"""uri-host with an optional port (RFC 9112, 3.2); an empty port, userinfo or anything behind `]` is no host."""

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

MAX_PORT: Final = 65_535


class HostGate:
    """Loopback names and the bind address pass with any port; entries of `hosts` as they are written."""

    def __init__(self, app: App, *, bind: str, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._any_port = LOOPBACK_NAMES | {_bracketed(bind).lower()}
        self._listed = frozenset(entry.lower() for entry in hosts)
        for entry in self._listed:
            if _parsed(entry) is None:
                raise ValueError(f"{entry!r} is not a host such as gpu.tailnet.ts.net or gpu.example:8443")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = fields(scope, b"host") if scope["type"] == "http" else []
        if scope["type"] != "http" or (len(given) == 1 and self._known(given[0].decode("latin-1").lower())):
            await self._app(scope, receive, send)
            return
        message = "This controller does not answer to that Host; list the name in [controller] hosts to serve it"
        await refuse(send, 421, REFUSED, message, close=True)

    def _known(self, host: str) -> bool:
        parsed = _parsed(host)
        if parsed is None:
            return False
        name, port = parsed
        return name in self._any_port or name in self._listed or (port is not None and f"{name}:{port}" in self._listed)


def _parsed(host: str) -> tuple[str, str | None] | None:
    match = GRAMMAR.fullmatch(host)
    if match is None or (match[2] is not None and not 0 < int(match[2]) <= MAX_PORT):
        return None
    return match[1], match[2]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
