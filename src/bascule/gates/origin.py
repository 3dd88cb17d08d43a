"""Gate 5: no `Origin`, or one that the owner listed.

Agents send none; a page in a browser always does, and cannot choose it.
"""

import re
from collections.abc import Iterable
from typing import Final

from bascule.gates.gate import REFUSED, App, Receive, Scope, Send, fields, refuse

ENTRY: Final = re.compile(r"(https?)://(\[[0-9a-f:]+\]|[a-z0-9.-]+)(?::(\d{1,5}|\*))?")
"""`scheme://host`, optionally `:port` or `:*`; lower case, as browsers serialise origins (RFC 6454, 6.2)."""


class OriginGate:
    """Closed when empty: without entries every Origin is refused, `null` among them."""

    def __init__(self, app: App, *, origins: Iterable[str] = ()) -> None:
        self._app = app
        self._exact, self._any_port = set[str](), set[str]()
        for origin in origins:
            if not ENTRY.fullmatch(origin):
                raise ValueError(f"{origin!r} is not an origin such as https://console.example or http://localhost:*")
            if origin.endswith(":*"):
                self._any_port.add(origin[:-2])
            else:
                self._exact.add(origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = fields(scope, b"origin") if scope["type"] == "http" else []
        if not given or (len(given) == 1 and self._listed(given[0].decode("latin-1"))):
            await self._app(scope, receive, send)
            return
        message = "Origin not allowed: browsers are not served unless [controller] origins lists theirs"
        await refuse(send, 403, REFUSED, message, close=True)

    def _listed(self, origin: str) -> bool:
        match = ENTRY.fullmatch(origin)
        if match is None or match[3] == "*":
            return False
        return origin in self._exact or f"{match[1]}://{match[2]}" in self._any_port
