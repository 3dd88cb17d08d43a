"""Where the bridge may connect: URLs read strictly, and every new connection made to an address that was checked.

What is sent over a connection is left to `exchange`. Row C7 of the features.

1. A URL is absolute, http or https, without credentials, query or fragment; no path means `/mcp`.
2. A name is resolved anew for each new connection, and all its addresses must be loopback or private; one that is not
   refuses them all.
3. The connection goes to one of the addresses just checked, never to the name again, so that a second answer of the
   resolver changes nothing. The next address is tried when one refuses.
4. Host, and the name in TLS, stay those of the URL.
"""

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import anyio
import httpcore2

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""A host name and port to literal addresses, best first; raises OSError when there are none."""

DEFAULT_PATH: Final = "/mcp"
"""Where a controller serves MCP."""

MAX_URL: Final = 2048
"""Characters of a URL: what proxies in between accept without question."""

ATTEMPT: Final = 2.0
"""Seconds for one address while others are left: a private network answers in milliseconds or not at all."""

_NEAR: Final = tuple(
    ipaddress.ip_network(block)
    for block in (
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "fc00::/7",
    )
)
"""Loopback, RFC 1918, RFC 6598 (tailnets), RFC 4193. Not link-local: cloud metadata lives there, controllers do not."""


class UrlError(ValueError):
    """A URL the bridge does not accept; the text says which rule, and never quotes credentials."""


class AddressRefusedError(httpcore2.ConnectError):
    """A name leads to an address that is not private; nothing was sent."""


class UnresolvedError(httpcore2.ConnectError):
    """A name leads nowhere; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Target:
    """A checked URL."""

    url: str
    """Normalised: with its path, without anything secret; fit for logs and people."""
    host: str
    port: int
    secure: bool


def read_url(text: str) -> Target:
    """Return the target that `text` names (RFC 3986, section 3).

    Raises:
        UrlError: it breaks rule 1.
    """
    if len(text) > MAX_URL or not text.isascii() or not text.isprintable() or set(text) & set(' \\<>"{}|^`'):
        raise UrlError(
            f"the URL must be at most {MAX_URL} visible ASCII characters; write other names in their xn-- form"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise UrlError("the URL cannot be read: its host or port is malformed") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UrlError("the URL must be absolute: http://HOST[:PORT][/PATH] or https://...")
    if "@" in parts.netloc:
        raise UrlError("the URL must not hold credentials; they come from a variable or a file")
    if "?" in text or "#" in text:
        raise UrlError("the URL must not have a query or a fragment")
    if port == 0 or "%" in parts.netloc:
        raise UrlError("the URL's host or port is malformed")
    secure = parts.scheme == "https"
    path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
    shown = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = shown if port is None else f"{shown}:{port}"
    return Target(f"{parts.scheme}://{netloc}{path}", parts.hostname, port or (443 if secure else 80), secure)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return every address of `host` by the system's resolver, without blocking the loop.

    Raises:
        OSError: it has none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def is_near(address: str) -> bool:
    """Whether `address` is loopback or private; what cannot be read, or has a zone, is not."""
    try:
        read = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(read, ipaddress.IPv6Address):
        if read.scope_id is not None:
            return False
        read = read.ipv4_mapped or read
    return any(read in network for network in _NEAR)


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections for the HTTP client, by rules 2 to 4. TLS is started by the client, with the URL's name."""

    def __init__(
        self,
        *,
        resolver: Resolve = resolve,
        allow_public: bool = False,
        connector: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._resolve, self._allow_public = resolver, allow_public
        self._connector = connector or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to one checked address of `host`.

        Raises:
            AddressRefusedError, UnresolvedError: see their sentences.
            httpcore2.ConnectError, httpcore2.ConnectTimeout: no address took the connection.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        addresses = await self._checked(host, port, timeout)
        failure: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for position, address in enumerate(addresses):
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            if position < len(addresses) - 1:
                left = ATTEMPT if left is None else min(ATTEMPT, left)
            try:
                return _Closing(
                    await self._connector.connect_tcp(address, port, left, local_address, socket_options)
                )  # 3
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = failure or error
        raise failure or httpcore2.ConnectTimeout("no time was left to connect")

    async def _checked(self, host: str, port: int, seconds: float | None) -> Sequence[str]:
        addresses = await self._addresses(host, port, seconds)  # 2
        far = [address for address in addresses if not is_near(address)]
        if far and not self._allow_public:
            raise AddressRefusedError(f"{host} leads to {far[0]}, which is neither loopback nor private")
        return addresses

    async def _addresses(self, host: str, port: int, seconds: float | None) -> Sequence[str]:
        bare = host.removeprefix("[").removesuffix("]")
        try:
            return [str(ipaddress.ip_address(bare))]
        except ValueError:
            pass
        try:
            async with asyncio.timeout(seconds):
                found = list(dict.fromkeys(await self._resolve(bare, port)))
        except TimeoutError:
            raise UnresolvedError(f"{host} could not be resolved within {seconds:g} s") from None
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise UnresolvedError(f"the name {host} does not resolve to any address")
        return found

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface is httpcore2's
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: no URL leads to a socket file.

        Raises:
            AddressRefusedError: always.
        """
        raise AddressRefusedError("connections to socket files are not made")

    async def sleep(self, seconds: float) -> None:
        """Wait, on behalf of the client."""
        await asyncio.sleep(seconds)


class _Closing(httpcore2.AsyncNetworkStream):
    """A connection that is closed when its TLS does not come about, cancelled ones included.

    httpcore2 closes it on failures alone; a call cancelled in the middle of a handshake would leave its socket open.
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore2's interface
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore2's interface
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface is httpcore2's
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
