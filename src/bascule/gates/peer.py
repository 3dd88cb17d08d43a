"""Gate 4: the peer's address is loopback, or private where the bind is private.

Behind a local proxy the peer is always loopback and this gate decides nothing; forwarded headers are never believed.
"""

import ipaddress
from typing import Final

from bascule.gates.gate import REFUSED, App, Receive, Scope, Send, fields, refuse

PRIVATE: Final = tuple(
    ipaddress.ip_network(block)
    for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
"""RFC 1918, the shared space that tailnets use (RFC 6598), unique local addresses (RFC 4193)."""


class PeerGate:
    """Refuses peers that the bind was not meant for."""

    def __init__(self, app: App, *, private: bool, public: bool) -> None:
        self._app, self._private, self._public = app, private, public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._public or self._welcome(scope):
            await self._app(scope, receive, send)
            return
        message = (
            "This controller does not answer peers at your address; its bind decides that (--public-bind opens it)"
        )
        await refuse(send, 403, REFUSED, message, close=True)

    def _welcome(self, scope: Scope) -> bool:
        if fields(scope, b"tailscale-funnel-request"):
            return False  # Funnel brings the public internet to a loopback port
        client = scope.get("client")
        if not client:
            return False
        host = client[0]
        return host in ("127.0.0.1", "::1") or is_near(host, private=self._private)


def is_near(host: str, *, private: bool) -> bool:
    """Whether `host` is a loopback address, or a private one where `private` holds. Unreadable means no."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_loopback or (private and any(address in block for block in PRIVATE))
