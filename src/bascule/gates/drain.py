"""Gate 15: no new work while the controller drains.

Running work, its budget and its end are left to `assembly` and the node.
"""

from typing import Final

from bascule.gates.gate import REFUSED, App, Receive, Scope, Send, refuse

RETRY_AFTER: Final = (b"retry-after", b"5")


class Draining:
    """A switch that is thrown once."""

    def __init__(self) -> None:
        self.begun = False

    def __repr__(self) -> str:
        return f"<Draining: {'begun' if self.begun else 'no'}>"

    def begin(self) -> None:
        """Refuse what comes from now on."""
        self.begun = True


class DrainGate:
    """The last gate: what stands before it is refused for its own reason even now."""

    def __init__(self, app: App, *, draining: Draining) -> None:
        self._app, self._draining = app, draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._draining.begun:
            message = "The controller is shutting down; call again when it is back"
            await refuse(send, 503, REFUSED, message, headers=[RETRY_AFTER], close=True)
            return
        await self._app(scope, receive, send)
