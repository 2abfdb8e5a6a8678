"""Who is at the other end of a connection: its address; on this machine, its user. Linux.

On loopback everybody has the same address (``corral ui``, ssh tunnels, whose end is the user's own
sshd), so that a limit by address would be one for all. The kernel knows whose socket it is.
"""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path
from typing import Final

from starlette.requests import Request

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_OF_ROW: Final = slice(1, 3)
_UID: Final = 7


async def peer_of(request: Request) -> str:
    """What the limits of who is not logged in go by: ``10.0.0.7``, or ``127.0.0.1 uid 1000``."""
    if request.client is None:
        return "?"
    host, port = request.client
    try:
        if not ipaddress.ip_address(host).is_loopback:
            return host
    except ValueError:
        return host
    uid = await asyncio.to_thread(_uid, port, request.scope.get("server"))
    return f"{host} uid {uid}" if uid else host


def _uid(port: int, server: tuple[str, int | None] | None) -> str:
    """The user whose socket is connected from that port to this server; "" where none is found."""
    for name in _TABLES:
        try:
            table = Path(name).read_text(encoding="ascii")
        except OSError:
            continue
        for row in table.splitlines()[1:]:
            words = row.split()
            local, remote = (int(place.rpartition(":")[2], 16) for place in words[_OF_ROW])
            if local == port and (server is None or remote == server[1]):
                return words[_UID]
    return ""
