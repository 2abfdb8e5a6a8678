#!/usr/bin/env python3
# Installed as: /usr/local/lib/corral/mesh-relay.py on rented pods without TUN (roles/slurm/pods)
# Started by: the pod's supervisor, as corral-mesh-relay
# Runs as: root
"""Relays local TCP ports to one host through a SOCKS5 proxy. Runs on a node, needs Python alone.

A node whose tailnet lives in user space is reached by it, and reaches nothing on its own: its
tailscaled offers a SOCKS5 proxy instead, which Slurm does not speak. What comes in arrives from
127.0.0.1, so slurmstepd looks there for the srun that asked; the ports of srun are relayed too.

Usage: corral-mesh-relay SOCKS_PORT TARGET PORT|FIRST-LAST ...
"""

import asyncio
import contextlib
import errno
import ipaddress
import resource
import socket
import struct
import sys
from collections.abc import Sequence

HOST = "127.0.0.1"
WAIT_S = 30.0
CHUNK = 1 << 16
SPARE = 256
DAEMONS = 32768
"""Below are the ports of Slurm's daemons, above those of srun."""


class Relay:
    """One target behind one proxy."""

    def __init__(self, socks: int, target: str) -> None:
        self._socks = socks
        self._target = ipaddress.IPv4Address(target)

    async def serve(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """One connection: ask the proxy for the same port of the target, then copy both ways."""
        port = int(back.get_extra_info("sockname")[1])
        try:
            async with asyncio.timeout(WAIT_S):
                there, out = await self._dial(port)
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            print(f"port {port}: {error!r}", flush=True)
            back.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(here, out))
                both.create_task(_copy(there, back))
        except* OSError:  # one side is gone: the other would wait for it without end
            _reset(out)
            _reset(back)
        finally:
            out.close()
            back.close()

    async def _dial(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """RFC 1928: no password, CONNECT to an IPv4 address."""
        reader, writer = await asyncio.open_connection(HOST, self._socks)
        try:
            writer.write(b"\x05\x01\x00")
            if await reader.readexactly(2) != b"\x05\x00":
                raise ValueError("the proxy asks for a password")
            writer.write(b"\x05\x01\x00\x01" + self._target.packed + port.to_bytes(2, "big"))
            answer = await reader.readexactly(4)
            if answer[1]:
                raise ValueError(f"the proxy answers {answer[1]}")
            await reader.readexactly({1: 4, 4: 16}[answer[3]] + 2)
        except BaseException:
            writer.close()
            raise
        return reader, writer


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, and hand the end on: each direction ends separately.

    Raises:
        OSError: one of the connections is broken.
    """
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that its other end sees a failure, where the network can: no end."""
    with contextlib.suppress(OSError):
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


def ports(words: Sequence[str]) -> list[int]:
    """``6817 60001-63000`` as numbers."""
    numbers: list[int] = []
    for word in words:
        first, _, last = word.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


async def main(argv: Sequence[str]) -> None:
    """Listen until killed; as many ports as this container may have files open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    relay = Relay(int(argv[0]), argv[1])
    requested = ports(argv[2:])
    open_, taken = 0, list[int]()
    for port in requested[: max(most - SPARE, 1)]:
        try:
            await asyncio.start_server(relay.serve, HOST, port)
            open_ += 1
        except OSError as error:
            # tailscaled in user space takes one port of its own choice from 32768 on (1.102.5): one
            # of srun's in ten pods. The daemons' own ports must be there.
            if port < DAEMONS or error.errno != errno.EADDRINUSE:
                raise
            taken.append(port)
    note = f", not {taken}: taken by others" if taken else ""
    print(f"relays {open_} ports to {argv[1]}{note}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1:]))
