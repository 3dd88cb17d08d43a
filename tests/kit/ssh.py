"""A forwarded port: what `ssh -L PORT:127.0.0.1:TARGET machine` gives, over a real SSH connection on loopback.

Both ends are asyncssh, so that a machine without an SSH server can run the journey.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh


class _Forwards(asyncssh.SSHServer):
    """Lets anyone in and forwards to loopback only: it exists for one test on loopback."""

    def begin_auth(self, username: str) -> bool:
        return False

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return dest_host == "127.0.0.1"


@asynccontextmanager
async def forwarded_port(target_port: int, folder: Path) -> AsyncIterator[int]:
    """Forward a fresh local port to 127.0.0.1:`target_port` of the "other machine"; give the local port."""
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    known = folder / "known_hosts"
    async with await asyncssh.create_server(_Forwards, "127.0.0.1", 0, server_host_keys=[host_key]) as server:
        port = server.sockets[0].getsockname()[1]
        known.write_bytes(f"[127.0.0.1]:{port} ".encode() + host_key.export_public_key())
        async with asyncssh.connect(
            "127.0.0.1", port, username="agent", known_hosts=str(known), client_keys=None, config=None
        ) as connection:
            listener = await connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", target_port)
            async with listener:
                yield listener.get_port()
