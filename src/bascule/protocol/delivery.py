"""Tells, exactly once per answer, whether its last byte was handed over.

Handed over is not received: an HTTP client that then times out counts as delivered. What a receipt completes is the node's.
"""

from collections.abc import MutableMapping
from typing import Any, Final, Protocol

from mcp.server.context import ServerRequestContext

from bascule.node.terms import Receipt

_RECEIPTS: Final = "bascule.receipts"


class Deliveries(Protocol):
    """Where a server puts the receipt of an answer it is about to return."""

    def expect(self, ctx: ServerRequestContext[Any, Any], receipt: Receipt) -> None:
        """The answer to the request of `ctx` is on its way; `receipt` wants to know what becomes of it."""
        ...


def scope_of(ctx: ServerRequestContext[Any, Any]) -> MutableMapping[str, Any]:
    """Return the ASGI scope of the request behind `ctx`; an empty one where it did not come over HTTP."""
    scope: MutableMapping[str, Any] = ctx.request.scope if ctx.request is not None else {}
    return scope


class HttpDeliveries:
    """Receipts ride on the request's ASGI scope; `watched` settles them when the exchange is over."""

    def expect(self, ctx: ServerRequestContext[Any, Any], receipt: Receipt) -> None:
        """Put `receipt` on the scope of the request."""
        if ctx.request is not None:
            ctx.request.scope.setdefault(_RECEIPTS, []).append(receipt)


async def watched(app: Any, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Run `app` for one exchange and settle the receipts that appeared on its scope.

    Delivered: the last body message was handed to `send`, and until then `receive` had told of no disconnect. `send`
    itself never tells: after a disconnect it drops what it is given without a word.
    """
    gone = handed_over = False

    async def watching() -> Any:
        nonlocal gone
        message = await receive()
        if message["type"] == "http.disconnect":
            gone = True
        return message

    async def noting(message: Any) -> None:
        nonlocal handed_over
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            handed_over = not gone

    scope[_RECEIPTS] = []
    try:
        await app(scope, watching, noting)
    finally:
        for receipt in scope.pop(_RECEIPTS):
            if handed_over:
                receipt.delivered()
            else:
                receipt.undelivered("disconnected" if gone else "not sent")
