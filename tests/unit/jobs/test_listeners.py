"""Which program of a node a tunnel into a job leads to."""

from __future__ import annotations

import shutil
import socket
import subprocess

import pytest

from corral.errors import Code, CorralError
from corral.inspect.question import inquiry
from corral.jobs.listeners import listener_of, questions, read_listeners

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout"


def row(address: str, port: int, uid: int, state: str = "0A") -> str:
    """A line of /proc/net/tcp, as Linux prints it."""
    far = "0" * len(address)
    ends = f"{address}:{port:04X} {far}:0000 {state}"
    return f"   0: {ends} 00000000:00000000 00:00000000 00000000  {uid}        0 1"


LOOPBACK, ANY, OTHER = "0100007F", "00000000", "0B00000A"
LOOPBACK6, ANY6 = "00000000000000000000000001000000", "0" * 32
TABLE = "\n".join(
    (
        HEAD,
        row(LOOPBACK, 8000, 2001),
        row(ANY, 8001, 2001),
        row(OTHER, 8002, 2001),
        row(LOOPBACK, 8003, 2002),
        row(ANY, 22, 0),
        row(LOOPBACK, 8004, 2001, state="01"),
        row(LOOPBACK, 8005, 2002),
        row(LOOPBACK, 8007, 2002),
        HEAD,
        row(LOOPBACK6, 8005, 2001),
        row(ANY6, 8006, 2001),
        row(ANY6, 8007, 2001),
    )
)


def answers(table: str, uid: str = "2001") -> dict[str, str]:
    return {"user-id": uid, "listen": table}


def chosen(port: int) -> str:
    seen = read_listeners(answers(TABLE), "alice")
    return listener_of(seen, port, job="12", node="node1", user="alice").address


@pytest.mark.parametrize(
    ("port", "address"),
    [
        (8000, "127.0.0.1"),
        (8001, "127.0.0.1"),
        (8002, "10.0.0.11"),
        (8005, "[::1]"),  # the user's own, not the other one's
        (8006, "localhost"),
        (8007, "[::1]"),  # another user's program has its IPv4 side
        (22, "127.0.0.1"),  # the node's own
    ],
)
def test_where_a_tunnel_ends(port: int, address: str) -> None:
    assert chosen(port) == address


def test_a_port_that_nothing_listens_on_names_those_there_are() -> None:
    with pytest.raises(CorralError) as caught:
        chosen(8004)
    assert caught.value.code is Code.NOT_FOUND
    assert caught.value.message == "nothing listens on port 8004 of node1"
    assert caught.value.hint == (
        "alice's programs there listen on: 8000, 8001, 8002, 8005, 8006, 8007"
    )


def test_a_node_where_the_user_has_no_server() -> None:
    with pytest.raises(CorralError) as caught:
        seen = read_listeners(answers(HEAD, "2009"), "eve")
        listener_of(seen, 80, job="12", node="node1", user="eve")
    assert "start the server in job 12" in caught.value.hint
    assert "--node" in caught.value.hint


def test_another_users_server_is_not_reached() -> None:
    with pytest.raises(CorralError) as caught:
        chosen(8003)
    assert caught.value.code is Code.FORBIDDEN
    assert "belongs to another user (uid 2002), not to alice" in caught.value.message


@pytest.mark.parametrize(
    ("uid", "table"),
    [("", ""), ("x", ""), ("2001", row("0100", 1, 1)), ("2001", "0: a b 0A c d e f")],
)
def test_a_damaged_table_is_an_error(uid: str, table: str) -> None:
    with pytest.raises(CorralError) as caught:
        read_listeners(answers(table, uid), "alice")
    assert caught.value.code is Code.PARSE_FAILED


@pytest.mark.enable_socket
@pytest.mark.skipif(not shutil.which("sh"), reason="no shell")
def test_the_kernels_own_table() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        asked = inquiry(questions("root"))
        script = ["sh", "-c", str(asked.script)]
        text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    uid, listeners = read_listeners(asked.answers(text, "node1", "listeners"), "root")
    assert uid == 0
    assert "127.0.0.1" in {each.address for each in listeners if each.port == port}
