"""HTTP of the base install: what a request may do, and that there is one client."""

from __future__ import annotations

import ast
import asyncio
import gzip
import http.client
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from corral.api.page import page_server, tokens
from corral.api.page.page_server import refusal
from corral.apply import slurm_source
from corral.errors import Code, CorralError
from corral.jobs.rest import client
from corral.jobs.rest.client import RestClient
from corral.mesh import control
from corral.mesh.control import Http
from corral.runtime.http_client import HttpClient, NoResponseError, RefusedError
from tests.dripping import HEAD, dripping

URL = "http://node1.example.org/x"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: http://other.example.org/y\r\nContent-Length: 0\r\n\r\n"


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = [f"HTTP/1.1 {status}", f"Content-Length: {size}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Wire:
    """Servers without a network: what was connected to, what was sent, what they answer."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.hosts: list[str] = []
        self.ends: list[socket.socket] = []

    def connect(self, connection: http.client.HTTPConnection) -> None:
        self.hosts.append(connection.host)
        connection.sock, end = socket.socketpair()
        end.sendall(self.answers.pop(0))
        end.shutdown(socket.SHUT_WR)
        self.ends.append(end)

    def sent(self) -> str:
        return self.ends[-1].recv(1 << 16).decode()


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    made = Wire()

    def connect(connection: http.client.HTTPConnection) -> None:
        made.connect(connection)

    for kind in (http.client.HTTPConnection, http.client.HTTPSConnection):
        monkeypatch.setattr(kind, "connect", connect)
    for name in ("http_proxy", "https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield made
    for end in made.ends:
        end.close()


def send(client: HttpClient, at_most: int = 100, url: str = URL) -> bytes:
    return client.send("GET", url, timeout_s=5, within_s=5, at_most=at_most).body


def test_an_answer_is_read_up_to_its_limit(wire: Wire) -> None:
    wire.answers = [answer(b"abc", "ETag: one"), answer(b"abcdef"), answer(b"abc", length=9)]
    first, cut, broken = (
        HttpClient().send(
            *("PUT", URL, b"{}"), headers={"X-A": "b"}, timeout_s=5, within_s=5, at_most=4
        )
        for _ in range(3)
    )
    assert (first.body, first.headers["etag"], first.missing) == (b"abc", "one", 0)
    assert (cut.body, cut.missing) == (b"abcd", 2)
    assert (broken.body, broken.missing) == (b"abc", 6)
    request = wire.sent()
    assert request.startswith("PUT /x HTTP/1.1\r\n") and request.endswith("\r\n\r\n{}")
    assert "X-A: b\r\n" in request


def test_a_refusal_has_its_status_and_text(wire: Wire) -> None:
    wire.answers = [answer(b"no such thing", status="404 Not Found")]
    with pytest.raises(RefusedError, match="HTTP Error 404: Not Found") as caught:
        send(HttpClient())
    assert (caught.value.status, caught.value.body) == (404, b"no such thing")


@pytest.mark.parametrize("text", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 two\r\n\r\n"])
def test_what_is_no_http_is_no_response(wire: Wire, text: bytes) -> None:
    wire.answers = [text]
    with pytest.raises(NoResponseError, match=r"\w"):
        send(HttpClient())


def test_a_machine_that_cannot_be_reached_is_no_response(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", refused)
    with pytest.raises(NoResponseError, match="Connection refused"):
        send(HttpClient(proxies=False))


def test_redirects_are_followed_where_they_may_be(wire: Wire) -> None:
    wire.answers = [MOVED, answer(b"there")]
    assert send(HttpClient()) == b"there"
    assert wire.hosts == ["node1.example.org", "other.example.org"]
    wire.answers = [MOVED]
    with pytest.raises(RefusedError) as caught:
        send(HttpClient(redirects=False))
    assert caught.value.status == 302
    assert len(wire.hosts) == 3


@pytest.mark.parametrize("place", ["http://[x/", "http://a:b/"])
def test_a_redirect_to_what_is_no_address_is_no_response(wire: Wire, place: str) -> None:
    wire.answers = [MOVED.replace(b"http://other.example.org/y", place.encode())]
    with pytest.raises(NoResponseError):
        send(HttpClient())


def test_a_name_with_an_empty_part_is_no_response(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(connection: http.client.HTTPConnection) -> None:
        connection.host.encode("idna")  # as socket.getaddrinfo does

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
    with pytest.raises(NoResponseError):
        send(HttpClient(proxies=False), url="http://..a/")


@pytest.mark.parametrize("proxies", [True, False])
def test_proxies_of_the_environment(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, *, proxies: bool
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    wire.answers = [answer(b"")]
    send(HttpClient(proxies=proxies))
    assert wire.hosts == ["proxy.example.org" if proxies else "node1.example.org"]


@pytest.mark.parametrize("cookies", [True, False])
def test_cookies_are_kept_where_they_are_wanted(wire: Wire, *, cookies: bool) -> None:
    wire.answers = [answer(b"", "Set-Cookie: session=s1; Path=/"), answer(b"")]
    client = HttpClient(cookies=cookies)
    send(client)
    send(client)
    assert ("Cookie: session=s1" in wire.sent()) is cookies


def test_a_control_servers_redirect_gets_no_key(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.answers = [MOVED]
    with pytest.raises(CorralError) as caught:
        asyncio.run(
            Http("http://node1.example.org").ask("GET", "/x", headers={"Authorization": "k"})
        )
    assert (caught.value.status, wire.hosts) == (302, ["node1.example.org"])
    monkeypatch.setattr(control, "TRIES", 1)
    wire.answers = [answer(b"{}", length=9)]
    with pytest.raises(CorralError, match="7 bytes are missing"):
        asyncio.run(Http("http://node1.example.org").ask("GET", "/x"))


def test_the_controllers_page_gets_the_session(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    wire.answers = [answer(b"{}", "Set-Cookie: s=1; Path=/"), answer(b'{"tokens": [1]}')]
    page = tokens._Page("http://127.0.0.1:9/", HttpClient(proxies=False, cookies=True), "c7")
    asyncio.run(page.ask("POST", "login/code", {"code": "x"}))
    assert asyncio.run(page.ask("GET", "tokens")) == {"tokens": [1]}
    request = wire.sent()
    assert wire.hosts == ["127.0.0.1"] * 2
    assert "X-Csrf-Token: c7\r\n" in request and "Cookie: s=1\r\n" in request
    error = {"code": Code.NOT_FOUND.value, "message": "no such token"}
    wire.answers = [answer(json.dumps({"error": error}).encode(), status="404 Not Found")]
    with pytest.raises(CorralError, match="no such token"):
        asyncio.run(page.ask("DELETE", "tokens/7"))
    assert "answered 502" in refusal(RefusedError(502, "Bad Gateway", b"<html>")).message


def test_packages_at_an_address(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_source, "FETCHED_AT_MOST", 4)
    wire.answers = [
        answer(b"data"),
        answer(b"datum"),
        answer(b"", status="404 Not Found"),
        b"garbage\r\n",
    ]
    address = "https://debs.example.org/x.deb"
    assert slurm_source._fetch(address) == b"data"
    for message in ("larger than 1 GiB", "HTTP Error 404: Not Found", "cannot be fetched: garbage"):
        with pytest.raises(CorralError, match=message):
            slurm_source._fetch(address)


URL_OF_DRIPS = "http://127.0.0.1:{port}"


def by_rest(url: str) -> None:
    asyncio.run(RestClient(url, "kim", "a.b.c").version())


def by_page(url: str) -> None:
    asyncio.run(tokens._Page(f"{url}/", HttpClient(proxies=False)).ask("GET", "tokens"))


USERS: dict[str, tuple[Callable[[str], object], Sequence[tuple[object, str]]]] = {
    "jobs/rest/client.py": (by_rest, [(client, "WITHIN_S")]),
    "mesh/control.py": (
        lambda url: asyncio.run(Http(url).ask("GET", "/x")),
        [(control, "ATTEMPT_S")],
    ),
    "api/page/tokens.py": (by_page, [(tokens, "ANSWER_S")]),
    "api/page/page_server.py": (
        lambda url: page_server._post(f"{url}/", "a.b.c"),
        [(page_server, "CODE_S")],
    ),
    "apply/slurm_source.py": (slurm_source._fetch, [(slurm_source, "FETCH_S")]),
}
"""Who sends requests by it, how, and which limit is lowered for the test."""


def test_each_user_is_tried_with_a_server_that_drips(repo: Path) -> None:
    source = repo / "src/corral"
    module = "corral.runtime.http_client"
    files = {f for f in source.rglob("*.py") if f"{module}.HttpClient" in imports(f)}
    assert {str(file.relative_to(source)) for file in files} == USERS.keys()


@pytest.mark.enable_socket
@pytest.mark.parametrize("first", [HEAD, b"HTTP/1.1 200 OK\r\nX: "], ids=["body", "header"])
@pytest.mark.parametrize("user", USERS)
def test_a_server_that_sends_single_bytes_holds_nobody(
    user: str, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, limits = USERS[user]
    for module, name in limits:
        monkeypatch.setattr(module, name, 0.4)
    with dripping(first) as port, pytest.raises((CorralError, OSError), match="not complete"):
        ask(URL_OF_DRIPS.format(port=port))


@pytest.mark.enable_socket
def test_all_redirects_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    with dripping() as port:
        moved = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/\r\n"
        head = f"{moved}Content-Length: 9\r\n\r\n123456789".encode()
        with dripping(head) as first, pytest.raises(NoResponseError, match=r"after 0\.4 s"):
            HttpClient().send(
                *("GET", URL_OF_DRIPS.format(port=first)), timeout_s=5, within_s=0.4, at_most=100
            )


def test_whether_a_request_was_sent(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    wire.answers = [b""]
    with pytest.raises(NoResponseError) as caught:
        send(HttpClient())
    assert caught.value.sent

    def refused(_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", refused)
    with pytest.raises(NoResponseError) as caught:
        send(HttpClient(proxies=False))
    assert not caught.value.sent


@pytest.mark.parametrize("body", [b"", b"[1]", b'{"code": ', b"<html>", b"{}"])
def test_an_answer_of_the_page_that_cannot_be_read(wire: Wire, body: bytes) -> None:
    wire.answers = [answer(body), answer(b'{"code": "c"}', length=99)]
    for _ in range(2):
        with pytest.raises(CorralError, match="cannot be read") as caught:
            page_server._post("http://127.0.0.1:9/", "a.b.c")
        assert caught.value.code is Code.PARSE_FAILED
    assert "answered 500" in refusal(RefusedError(500, "", b"[]")).message


@pytest.mark.parametrize("packed", [b"<html>", gzip.compress(b"x" * 99, mtime=0)[:20]])
def test_a_damaged_index_is_asked_for_unpacked(wire: Wire, packed: bytes) -> None:
    wire.answers = [answer(packed), answer(b"Package: slurm")]
    assert slurm_source._index("https://debs.example.org") == b"Package: slurm"


SENDING = {"urllib.request", "urllib.error", "http.client"}


def imports(file: Path) -> set[str]:
    """Modules that a file imports, and what it imports of them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_one_module_sends_requests_with_the_standard_library(repo: Path) -> None:
    """Programs that run elsewhere with Python alone have no module of Corral's to import."""
    source = repo / "src/corral"
    senders = {
        str(file.relative_to(source)): file
        for file in source.rglob("*.py")
        if imports(file) & SENDING
    }
    assert senders.pop("runtime/http_client.py")
    assert senders.keys() >= {"track.py", "agents/rental_guard.py"}
    assert not {
        name
        for name, file in senders.items()
        if "# Installed as: " not in file.read_text()[:60]
        or any(module.partition(".")[0] == "corral" for module in imports(file))
    }
