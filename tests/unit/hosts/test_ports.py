"""Ports of the loopback that are held until a server takes them."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from corral.errors import Code, CorralError
from corral.hosts.ports import HeldPort

pytestmark = pytest.mark.enable_socket
HERE = "127.0.0.1"


def left_behind() -> int:
    """A port whose server has ended a connection and itself: Linux keeps it in TIME_WAIT."""
    with socket.create_server((HERE, 0)) as server:
        port = int(server.getsockname()[1])
        with socket.create_connection((HERE, port)) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
    with socket.socket() as plain, pytest.raises(OSError):
        plain.bind((HERE, port))
    return port


def test_the_port_of_a_server_that_has_just_ended_is_free() -> None:
    port = left_behind()
    with HeldPort(port) as held:
        assert held.number == port
    socket.create_server((HERE, port)).close()


@pytest.mark.parametrize("used", [True, False])
def test_a_held_port_is_nobody_elses(*, used: bool) -> None:
    """Not of a server that sets SO_REUSEADDR either, as servers do."""
    with HeldPort(left_behind() if used else 0) as held:
        with pytest.raises(OSError):
            socket.create_server((HERE, held.number))
        with pytest.raises(CorralError, match=f"port {held.number} is taken"):
            HeldPort(held.number)
        with pytest.raises(OSError):
            socket.create_connection((HERE, held.number))


def test_a_port_on_which_somebody_listens_is_refused() -> None:
    with socket.create_server((HERE, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(CorralError, match=f"port {port} is taken") as refused:
            HeldPort(port)
    assert refused.value.code is Code.USAGE


LISTENS = """
import socket, sys
listening = socket.socket(fileno=int(sys.argv[1]))
listening.listen()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
print("up", flush=True)
connection, _ = listening.accept()
connection.close()
"""


def test_the_port_of_a_server_that_has_ended_stays_held() -> None:
    """A child listens; when it has ended, no other program gets the port, and nobody connects."""
    with HeldPort() as held:
        argv = [sys.executable, "-c", LISTENS, str(held.handle)]
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, pass_fds=(held.handle,), text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
            with socket.create_connection((HERE, held.number)) as client:
                assert client.recv(1) == b""
        held.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HERE, held.number))
        with pytest.raises(OSError):
            socket.create_server((HERE, held.number))
    socket.create_server((HERE, held.number)).close()


def test_a_port_that_nobody_listened_on_is_refused_as_before() -> None:
    with HeldPort() as held:
        held.refuse()
        with pytest.raises(OSError):
            socket.create_server((HERE, held.number))
