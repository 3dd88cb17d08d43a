"""Gate 6: nothing that only a browser sends.

`Sec-Fetch-Mode` alone passes: Node's `fetch` sends it, and agents run on Node.
"""

from typing import Final

from bascule.gates.gate import REFUSED, App, Receive, Scope, Send, fields, refuse

SIGNS: Final = (b"sec-fetch-site", b"sec-fetch-dest", b"sec-fetch-user", b"referer")


class BrowserGate:
    """A second line behind Origin: simple requests of old browsers carry one of these and no Origin."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not any(fields(scope, sign) for sign in SIGNS):
            await self._app(scope, receive, send)
            return
        await refuse(send, 403, REFUSED, "Browser context not allowed: this address is for agents", close=True)
