"""Connections forwarded on this machine: there, for this user alone, and gone with their owner."""

from __future__ import annotations

import asyncio
import socket
import stat
import struct
import sys
from pathlib import Path

import pytest

from corral.hosts import forward
from corral.hosts.ports import free_port
from corral.hosts.process import Child


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"back " + await reader.read())
    await writer.drain()
    writer.close()


@pytest.mark.enable_socket
def test_a_socket_leads_to_a_port(tmp_path: Path) -> None:
    async def forwarded() -> tuple[bytes, int]:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        near = tmp_path / "near"
        argv = [sys.executable, "-m", "corral.hosts.forward", str(near), f"127.0.0.1:{port}"]
        async with server, await Child.start(argv) as child:
            for _ in range(200):
                if near.exists():
                    break
                await asyncio.sleep(0.05)
            mode = stat.S_IMODE(near.stat().st_mode)
            reader, writer = await asyncio.open_unix_connection(near)
            writer.write(b"there\n")
            writer.write_eof()  # as a client does that has sent all: the answer still comes
            answer = await reader.read()
            writer.close()
        assert not child.running
        return answer, mode

    answer, mode = asyncio.run(asyncio.wait_for(forwarded(), 60))
    assert answer == b"back there\n"
    assert mode == 0o600


@pytest.mark.enable_socket
def test_nobody_at_the_far_end(tmp_path: Path) -> None:
    """The connection ends; the next one is tried again."""

    async def refused() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        near = tmp_path / "near"
        argv = [sys.executable, "-m", "corral.hosts.forward", str(near), f"127.0.0.1:{port}"]
        async with await Child.start(argv):
            for _ in range(200):
                if near.exists():
                    break
                await asyncio.sleep(0.05)
            reader, writer = await asyncio.open_unix_connection(near)
            answer = await reader.read()
            writer.close()
        return answer

    assert asyncio.run(asyncio.wait_for(refused(), 60)) == b""


@pytest.mark.enable_socket
def test_an_ipv6_address_is_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 on this machine's loopback")

    async def forwarded() -> bytes:
        server = await asyncio.start_server(_echo, "::1", 0)
        there, here = server.sockets[0].getsockname()[1], free_port()
        argv = [sys.executable, "-m", "corral.hosts.forward"]
        async with (
            server,
            await Child.start([*argv, f"127.0.0.1:{here}", f"[::1]:{there}"]) as child,
        ):
            while child.running:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", here)
                    break
                except OSError:
                    await asyncio.sleep(0.05)
            else:
                raise AssertionError("it ended")
            writer.write_eof()
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(forwarded()) == b"back "


@pytest.mark.enable_socket
@pytest.mark.parametrize("who", ["far", "near"])
def test_a_reset_is_passed_on(who: str) -> None:
    """The other side waited for ever for one that is gone."""

    async def work() -> None:
        there: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        there = asyncio.get_running_loop().create_future()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there.set_result((reader, writer))

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with await forward._listen("127.0.0.1:0", f"127.0.0.1:{port}") as listening:
                near = await asyncio.open_connection(*listening.sockets[0].getsockname())
                near[1].write(b"x")
                far = await there
                assert await far[0].readexactly(1) == b"x"
                gone, other = (far, near) if who == "far" else (near, far)
                linger = struct.pack("ii", 1, 0)
                gone[1].get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
                gone[1].transport.abort()
                with pytest.raises(ConnectionResetError):
                    await asyncio.wait_for(other[0].read(), 5)
                other[1].close()

    asyncio.run(work())
