"""The page's server itself, over real sockets of 127.0.0.0/8: what strangers may cost it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.unit.web.fake import token

EXAMPLE = Path(__file__).parents[2] / "examples" / "laptop.yaml"


@dataclass(frozen=True)
class Page:
    url: str
    port: int
    code: str
    pid: int


@contextmanager
def serving() -> Iterator[Page]:
    """A page with no slurmrestd behind it; who starts it has a one-time code."""
    settings = {"cluster": "laptop", "rest": "http://127.0.0.9:9", "handover": ["kim", token()]}
    with subprocess.Popen(
        [sys.executable, "-m", "corral.web"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(f"{json.dumps(settings)}\n")
            server.stdin.flush()
            told = json.loads(server.stdout.readline())
            yield Page(f"http://127.0.0.1:{told['port']}", told["port"], told["code"], server.pid)
        finally:
            server.terminate()


@pytest.fixture
def page() -> Iterator[Page]:
    with serving() as found:
        yield found


def half_open(
    port: int, count: int, sent: bytes, stack: ExitStack, buffer: int = 0
) -> list[socket.socket]:
    """Connections from many addresses of 127.0.0.0/8 that send so much and no more."""
    found: list[socket.socket] = []
    for n in range(count):
        one = stack.enter_context(socket.socket())
        one.settimeout(10)
        if buffer:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        one.bind((f"127.0.{n // 250 % 250 + 1}.{n % 250 + 1}", 0))
        one.connect(("127.0.0.1", port))
        one.sendall(sent)
        found.append(one)
    return found


def ended(one: socket.socket) -> bool:
    """Whether the server has closed it."""
    one.settimeout(0.2)
    try:
        return not one.recv(4096)
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


def answers(page: Page) -> float:
    """Seconds until the page answers somebody new."""
    begun = time.monotonic()
    assert httpx.get(f"{page.url}/", timeout=5).status_code == 200
    return time.monotonic() - begun


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
        assert answers(page) < 2
        assert sum(not ended(one) for one in every[:50]) == 0  # the oldest went
        assert not ended(every[-1])


def test_single_bytes_do_not_lengthen_the_time_for_headers(page: Page) -> None:
    with ExitStack() as stack:
        (one,) = half_open(page.port, 1, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", stack)
        begun = time.monotonic()
        with pytest.raises(OSError, match=r"reset|pipe"):
            while time.monotonic() - begun < 20:
                one.sendall(b"a")
                time.sleep(0.5)
        assert 8 < time.monotonic() - begun < 14


def test_who_does_not_read_is_not_kept(page: Page) -> None:
    asked = b"GET /js/cluster.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with ExitStack() as stack:
        every = half_open(page.port, 40, b"", stack, buffer=4096)
        for one in every:
            one.setblocking(False)
            with suppress(OSError):  # until its buffers are full, or it is ended
                for _ in range(40):
                    one.send(asked * 50)
        assert answers(page) < 5
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


def test_each_user_of_this_machine_has_a_limit(page: Page) -> None:
    guess = (
        "import sys, urllib.request as r, urllib.error as e, json\ns=[]\nfor n in range(14):\n"
        " q=r.Request(sys.argv[1]+'/api/login/code', json.dumps({'code':'x'}).encode(),"
        "{'Content-Type':'application/json'})\n"
        " try: r.urlopen(q)\n except e.HTTPError as x: s.append(x.code)\nprint(json.dumps(s))"
    )
    found = [
        json.loads(subprocess.run(
            ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups",
             "/usr/bin/env", "python3", "-c", guess, page.url],
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout)
        for uid in ("65534", "1")
    ]  # fmt: skip
    assert found == [[401] * 10 + [429] * 4] * 2
