"""Where a controller may listen: addresses worked out and judged before anything is bound.

Binding itself is left to `listener`, and it binds the addresses judged here, never a name again.

1. Wildcards are public.
2. A literal address stands for itself; a name for every address it resolves to.
3. Link-local, multicast, reserved and documentation addresses are refused, whatever the flags say.
4. Loopback and private addresses (RFC 1918, 100.64.0.0/10, fc00::/7) pass; any other needs the public flag.
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from bascule.gates.peer import PRIVATE

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str], Sequence[str]]

WILDCARDS: Final = frozenset({"", "0", "0.0.0.0", "::", "[::]", "*"})  # noqa: S104 - named in order to be refused

NEVER: Final = tuple(
    ipaddress.ip_network(block)
    for block in (
        "0.0.0.0/8", "169.254.0.0/16", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "fe80::/10", "ff00::/8", "2001:db8::/32",
    )
)  # fmt: skip
"""Link-local, documentation (RFC 5737, RFC 3849), multicast, reserved: no controller is meant to be there."""


class Reach(StrEnum):
    """Who can reach a bind."""

    LOOPBACK = "loopback"
    PRIVATE = "private"
    PUBLIC = "public"


class BindRefusedError(Exception):
    """The address is not one to listen on; the text names the flag that would allow it, where one would."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Checked addresses, ready for `listener.listen`."""

    host: str
    addresses: tuple[tuple[Any, ...], ...]
    reach: Reach


def resolve(name: str) -> Sequence[str]:
    """Return every address of `name`, by the system's resolver.

    Raises:
        OSError: it has none.
    """
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


def assess(host: str, port: int, *, public: bool = False, resolver: Resolve = resolve) -> Bind:
    """Return where to listen for `host`.

    Raises:
        BindRefusedError: with the cause and what would allow it.
    """
    bare = host.strip().removeprefix("[").removesuffix("]")
    if host.strip() in WILDCARDS:  # 1
        if not public:
            raise BindRefusedError(_public_words(host or "every address"))
        any_address = ("::", port, 0, 0) if bare in ("::", "[::]") else ("0.0.0.0", port)  # noqa: S104 - by explicit flag
        return Bind(host, (any_address,), Reach.PUBLIC)
    addresses = _addresses(bare, resolver)  # 2
    reaches = {_reach(host, address, public=public) for address in addresses}  # 3, 4
    reach = next(reach for reach in (Reach.PUBLIC, Reach.PRIVATE, Reach.LOOPBACK) if reach in reaches)
    return Bind(host, tuple(_socket_address(address, port) for address in addresses), reach)


def _addresses(host: str, resolver: Resolve) -> list[IPAddress]:
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    try:
        found = resolver(host)
    except (OSError, UnicodeError) as error:
        raise BindRefusedError(f"{host} does not resolve to an address of this machine ({error}); name one") from None
    addresses = [ipaddress.ip_address(address) for address in found]
    if not addresses:
        raise BindRefusedError(f"{host} resolves to no address; name one, such as 127.0.0.1")
    return addresses


def _reach(host: str, address: IPAddress, *, public: bool) -> Reach:
    plain = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped else address
    if plain.is_loopback:
        return Reach.LOOPBACK
    if plain.is_unspecified:
        if not public:
            raise BindRefusedError(_public_words(host))
        return Reach.PUBLIC
    if any(plain in block for block in NEVER):
        raise BindRefusedError(
            f"{host} ({address}) is link-local, multicast, reserved or for documentation: never bound"
        )
    if any(plain in block for block in PRIVATE):
        return Reach.PRIVATE
    if not public:
        raise BindRefusedError(_public_words(f"{host} ({address})" if host != str(address) else host))
    return Reach.PUBLIC


def _public_words(where: str) -> str:
    return (
        f"{where} is a public address. Keep 127.0.0.1 and publish through a tunnel or a tailnet; "
        "--public-bind would bind it all the same"
    )


def _socket_address(address: IPAddress, port: int) -> tuple[Any, ...]:
    return (str(address), port) if address.version == 4 else (str(address), port, 0, 0)
