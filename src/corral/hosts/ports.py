"""TCP ports: a free one of this machine, and whether an SSH server answers at one."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

GREETS_S: Final = 5.0
"""Seconds that an SSH server has to send its first line."""


def free_port() -> int:
    """A port of the loopback that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def greets(address: str, port: int) -> bool:
    """True when an SSH server sends its first line."""
    try:
        async with asyncio.timeout(GREETS_S):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                return (await reader.readline()).startswith(b"SSH-")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
