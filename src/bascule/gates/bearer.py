"""Gate 8: one bearer token of a caller in force; finds out who asks and puts it on the request.

How tokens are kept and compared is left to `callers`; what the caller may do to the node.

1. Exactly one `Authorization` field; a second one could be the one a proxy checked.
2. The scheme is `Bearer`, any case, then one token without blanks (RFC 6750, 2.1).
3. The token belongs to a caller in force; the comparison takes the same time whether or not the name exists.
4. Every failure gets the same answer.
"""

from collections.abc import Callable
from typing import Final

from bascule.gates.gate import LIVENESS, REFUSED, App, Receive, Scope, Send, fields, refuse
from bascule.identity import Caller, put_caller

Authenticate = Callable[[str], Caller | None]

MAX_TOKEN: Final = 256
"""Characters: ours have about 80; a longer one is hashed by nobody."""

_CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="bascule"')


class BearerGate:
    """Liveness passes without; it says nothing but that the process answers."""

    def __init__(self, app: App, *, authenticate: Authenticate) -> None:
        self._app, self._authenticate = app, authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["raw_path"] == LIVENESS:
            await self._app(scope, receive, send)
            return
        caller = self._caller(fields(scope, b"authorization"))
        if caller is None:  # 4
            message = "Missing or invalid bearer token: `bascule token create NAME` on the controller makes one"
            await refuse(send, 401, REFUSED, message, headers=[_CHALLENGE], close=True)
            return
        put_caller(scope, caller)
        await self._app(scope, receive, send)

    def _caller(self, given: list[bytes]) -> Caller | None:
        if len(given) != 1:  # 1
            return None
        scheme, _, token = given[0].decode("latin-1").partition(" ")
        token = token.strip(" ")
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN or " " in token:  # 2
            return None
        return self._authenticate(token)  # 3
