"""Gate 11: the body is declared as JSON in UTF-8, without a content coding.

Whether it is JSON is left to `json_body`; no other charset or coding is ever decoded.
"""

import re
from typing import Final

from bascule.gates.gate import REFUSED, App, Receive, Scope, Send, fields, refuse

JSON: Final = re.compile(rb'application/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?', re.IGNORECASE)


class MediaTypeGate:
    """`application/json`, any case, charset utf-8 or none (RFC 8259, 11)."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        types, codings = fields(scope, b"content-type"), fields(scope, b"content-encoding")
        if len(types) != 1 or not JSON.fullmatch(types[0]):
            await refuse(send, 415, REFUSED, "Content-Type must be application/json, in UTF-8", close=True)
        elif any(coding.strip().lower() != b"identity" for coding in codings):
            await refuse(send, 415, REFUSED, "Content-Encoding is not supported: send the JSON as it is", close=True)
        else:
            await self._app(scope, receive, send)
