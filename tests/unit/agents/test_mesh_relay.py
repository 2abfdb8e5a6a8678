"""The relay's small parts; that it relays is tested on the real thing (tests/mesh)."""

from __future__ import annotations

import asyncio
import runpy
import socket
import struct
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "src/corral/agents/mesh_relay.py"


def test_ports() -> None:
    ports = runpy.run_path(str(PROGRAM))["ports"]
    assert ports(["6817", "60001-60003"]) == [6817, 60001, 60002, 60003]
    assert ports([]) == []


def reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.enable_socket
@pytest.mark.parametrize("who", ["target", "caller"])
def test_a_reset_is_passed_on(who: str) -> None:
    """The other side waited for ever for one that is gone."""
    relay = runpy.run_path(str(PROGRAM))["Relay"]

    async def work() -> None:
        there: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        there = asyncio.get_running_loop().create_future()

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(3)
            writer.write(b"\x05\x00")
            await reader.readexactly(10)
            writer.write(b"\x05\x00\x00\x01" + bytes(6))
            there.set_result((reader, writer))

        async with await asyncio.start_server(proxy, "127.0.0.1", 0) as far:
            serve = relay(far.sockets[0].getsockname()[1], "10.0.0.1").serve
            async with await asyncio.start_server(serve, "127.0.0.1", 0) as near:
                caller = await asyncio.open_connection(*near.sockets[0].getsockname())
                caller[1].write(b"x")
                target = await there
                assert await target[0].readexactly(1) == b"x"
                gone, other = (target, caller) if who == "target" else (caller, target)
                reset(gone[1])
                with pytest.raises(ConnectionResetError):
                    await asyncio.wait_for(other[0].read(), 5)
                other[1].close()

    asyncio.run(work())
