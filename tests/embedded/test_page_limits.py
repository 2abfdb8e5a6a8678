"""The page's server itself, over real sockets of 127.0.0.0/8: what strangers may cost it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.web.fake import FakeRest, token

EXAMPLE = Path(__file__).parents[2] / "examples" / "laptop.yaml"


@dataclass(frozen=True)
class Page:
    url: str
    port: int
    code: str
    pid: int


@contextmanager
def serving(**more: Any) -> Iterator[Page]:
    """A page with no slurmrestd behind it; who starts it has a one-time code."""
    settings = {
        "cluster": "laptop",
        "rest": "http://127.0.0.9:9",
        "handover": ["kim", token()],
        **more,
    }
    with subprocess.Popen(
        [sys.executable, "-m", "corral.web"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(f"{json.dumps(settings)}\n")
            server.stdin.flush()
            access = json.loads(server.stdout.readline())
            yield Page(
                f"http://127.0.0.1:{access['port']}", access["port"], access["code"], server.pid
            )
        finally:
            server.terminate()


@pytest.fixture
def page() -> Iterator[Page]:
    with serving() as served:
        yield served


def half_open(
    port: int, count: int, sent: bytes, stack: ExitStack, buffer: int = 0
) -> list[socket.socket]:
    """Connections from many addresses of 127.0.0.0/8 that send so much and no more."""
    connections: list[socket.socket] = []
    for n in range(count):
        connection = stack.enter_context(socket.socket())
        connection.settimeout(10)
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.bind((f"127.0.{n // 250 % 250 + 1}.{n % 250 + 1}", 0))
        connection.connect(("127.0.0.1", port))
        connection.sendall(sent)
        connections.append(connection)
    return connections


def ended(connection: socket.socket) -> bool:
    """Whether the server has closed it."""
    connection.settimeout(0.2)
    try:
        return not connection.recv(4096)
    except TimeoutError:
        return False
    except OSError:
        return True


def held(page: Page) -> int:
    """Sockets that the server has open."""
    count = 0
    for link in Path(f"/proc/{page.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += str(link.readlink()).startswith("socket:")
    return count


def answers(page: Page) -> bool:
    """Whether the page answers somebody new."""
    return httpx.get(f"{page.url}/", timeout=60).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b\r\n",
     b"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
     b"Content-Length: 1000\r\n\r\n{"],
    ids=["nothing", "headers", "body"],
)  # fmt: skip
def test_half_open_connections_stop_nobody(page: Page, sent: bytes) -> None:
    with ExitStack() as stack:
        every = half_open(page.port, 2100, sent, stack)
        assert answers(page)
        assert not ended(every[-1])  # it was not its end that let somebody in
        assert sum(not ended(connection) for connection in every[:50]) == 0  # the oldest went


def test_single_bytes_do_not_lengthen_the_time_for_headers(page: Page) -> None:
    with ExitStack() as stack:
        (connection,) = half_open(
            page.port, 1, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", stack
        )
        begun = time.monotonic()
        with pytest.raises(OSError, match=r"reset|pipe"):
            while time.monotonic() - begun < 20:
                connection.sendall(b"a")
                time.sleep(0.5)
        assert time.monotonic() - begun > 8


def test_who_does_not_read_is_not_kept(page: Page) -> None:
    asked = b"GET /js/cluster/cluster.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with ExitStack() as stack:
        every = half_open(page.port, 40, b"", stack, buffer=4096)
        for connection in every:
            connection.setblocking(False)
            with suppress(OSError):  # until its buffers are full, or it is ended
                for _ in range(40):
                    connection.send(asked * 50)
        assert answers(page)
        assert held(page) >= 40
        for _ in range(90):  # 30 s from when its buffers are full
            if held(page) < 20:
                break
            time.sleep(1)
        assert held(page) < 20


def test_wrong_codes_lock_nobody_out(page: Page) -> None:
    with httpx.Client(base_url=page.url) as client:
        seen = [
            client.post("/api/login/code", json={"code": f"{n:06x}-000000-000000"}).status_code
            for n in range(30)
        ]
        assert seen[:10] == [401] * 10
        assert set(seen[10:]) == {429}
        right = client.post("/api/login/code", json={"code": page.code})
        # The code is taken; behind it nobody answers as slurmrestd.
        assert right.json()["error"]["code"] == "unreachable"


GUESS = (
    "import sys, urllib.request as r, urllib.error as e, json\ns=[]\nfor n in range(14):\n"
    " q=r.Request(sys.argv[1]+'/api/login/code', json.dumps({'code':'x'}).encode(),"
    "{'Content-Type':'application/json'})\n"
    " try: r.urlopen(q)\n except e.HTTPError as x: s.append(x.code)\nprint(json.dumps(s))"
)
CODE = b'{"code": "000000-000000-000000"}'
WRONG = (
    b"POST /api/login/code HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(CODE) + CODE
)


def guesses(page: Page, uid: int, program: str = GUESS) -> list[int]:
    """What a user of this machine is answered to 14 wrong codes."""
    argv = [
        "setpriv",
        "--reuid",
        str(uid),
        "--regid",
        str(uid),
        "--clear-groups",
        "/usr/bin/env",
        "python3",
        "-c",
        program,
        page.url,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_each_user_of_this_machine_has_a_limit(page: Page) -> None:
    assert [guesses(page, uid) for uid in (65534, 1)] == [[401] * 10 + [429] * 4] * 2


def test_sockets_closed_at_once_count_for_nobody_else(page: Page) -> None:
    """A closed socket has no user any more: the kernel shows 0, which is root's number."""
    pid = os.fork()
    if not pid:
        os.setgid(65534)
        os.setuid(65534)
        for _ in range(200):
            with socket.create_connection(("127.0.0.1", page.port)) as connection:
                connection.sendall(WRONG)
        os._exit(0)
    os.waitpid(pid, 0)
    time.sleep(1)
    for uid in (0, 1):
        assert guesses(page, uid)[:10] == [401] * 10, uid


def test_all_of_loopback_is_one_peer(page: Page) -> None:
    seen: list[int] = []
    for n in range(40):
        with socket.socket() as connection:
            connection.settimeout(10)
            connection.bind((f"127.0.3.{n + 1}", 0))
            connection.connect(("127.0.0.1", page.port))
            connection.sendall(WRONG)
            seen.append(int(connection.recv(4096).split()[1]))
    assert seen == [401] * 10 + [429] * 30


def test_a_person_is_no_reverse_proxy() -> None:
    """Anybody here can connect and send X-Forwarded-For; a service of this machine may."""
    kind = "'application/json'"
    sent = GUESS.replace(kind, f"{kind},'X-Forwarded-For':'10.0.0.%d'%n")
    with serving(names=["hpc.example.org"]) as page:
        assert guesses(page, 65534, sent) == [401] * 10 + [429] * 4
        assert guesses(page, 33, sent) == [401] * 14


@contextmanager
def slurmrestd() -> Iterator[tuple[str, FakeRest]]:
    """Recorded answers on a socket."""
    fake = FakeRest()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = httpx.Request("GET", f"http://slurm{self.path}", headers=dict(self.headers))
            reply = fake(asked)
            self.send_response(reply.status_code)
            self.send_header("Content-Length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", fake
    finally:
        server.shutdown()


def flooding(port: int, sent: bytes, until: float) -> int:
    """A process of another kind of client: connections that send so much and close, as fast as
    1,500 a second; gives its number."""
    pid = os.fork()
    if pid:
        return pid
    opened, begun = 0, time.monotonic()
    while time.monotonic() < until:
        if opened > (time.monotonic() - begun) * 1500:
            time.sleep(0.002)
            continue
        opened += 1
        with socket.socket() as connection, suppress(OSError):
            connection.bind((f"127.1.{opened // 250 % 4}.{opened % 250 + 1}", 0))
            connection.connect(("127.0.0.1", port))
            connection.sendall(sent)
    os._exit(0)


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"], ids=["nothing", "requests"]
)
def test_a_flood_of_connections_stops_no_viewer(sent: bytes) -> None:
    """From 1,000 addresses of the viewer's own user: nothing but the session sets them apart."""
    with slurmrestd() as (rest, fake), serving(rest=rest) as page:
        reply = httpx.post(f"{page.url}/api/login", json={"token": fake.login()}, timeout=30)
        (cookie,) = reply.cookies.jar
        headers = {"cookie": f"{cookie.name}={cookie.value}", "x-csrf-token": reply.json()["csrf"]}
        pid = flooding(page.port, sent, time.monotonic() + 600)  # until all are answered
        seen = list[int]()
        try:
            time.sleep(1)
            for _ in range(20):  # each with a new connection
                asked = httpx.get(f"{page.url}/api/me", headers=headers, timeout=60)
                seen.append(asked.status_code)
                time.sleep(0.1)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert seen == [200] * 20
