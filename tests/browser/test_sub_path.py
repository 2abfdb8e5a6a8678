"""Pages below a path of one host, behind a reverse proxy: https://host/corral/."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx
import pytest

from corral.web.users.sessions import login_of
from tests.browser.conftest import patient, wait_until
from tests.browser.desk import Desk, DeskRest, served
from tests.browser.helper_double import FIRST_EVENT

END_TO_END = {"connection", "keep-alive", "transfer-encoding"}


class Proxy(BaseHTTPRequestHandler):
    """What `location /corral/ { proxy_pass http://127.0.0.1:8765/; }` of nginx does."""

    pages: ClassVar[Mapping[str, int]] = {}

    def _passed(self) -> None:
        prefix = "/" + self.path.split("/")[1]
        port = self.pages.get(prefix)
        if port is None:
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in END_TO_END}
        headers["X-Forwarded-Prefix"] = prefix
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        try:
            asked.request(self.command, self.path.removeprefix(prefix), body, headers)
            reply = asked.getresponse()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in END_TO_END:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while data := reply.read1(1 << 16):
                self.wfile.write(data)
                self.wfile.flush()
        except OSError:  # nobody listens any more
            pass
        finally:
            asked.close()
            self.close_connection = True

    do_GET = do_POST = _passed  # noqa: N815  # the library's names

    def log_message(self, format: str, *args: object) -> None:  # its name
        """Nothing."""


@contextmanager
def proxied(pages: Mapping[str, int]) -> Iterator[str]:
    """Pages at these ports below these paths of one origin."""
    handler = type("Handler", (Proxy,), {"pages": pages})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def two(chromium: Any) -> Iterator[tuple[Any, str, dict[str, Desk]]]:
    """A browser, the origin, and the pages of two clusters below /a and /b."""
    with ExitStack() as stack:
        desks = {path: stack.enter_context(served(DeskRest())) for path in ("/a", "/b")}
        ports = {path: urlsplit(desk.url).port or 0 for path, desk in desks.items()}
        origin = stack.enter_context(proxied(ports))
        context = patient(chromium, locale="en-US")
        yield context, origin, desks
        context.close()


def code(desk: Desk, user: str) -> str:
    return desk.app.state.corral.sessions.code(login_of(desk.rest.login(user)))


def test_two_pages_below_paths_of_one_host_work_and_do_not_end_each_other(
    two: tuple[Any, str, dict[str, Desk]],
) -> None:
    """Cookies went to the entire host and had one name: the second login ended the first."""
    context, origin, desks = two
    tabs: dict[str, Any] = {}
    wrong: list[str] = []
    for (path, desk), user in zip(desks.items(), ("kim", "lee"), strict=True):
        desk.rest.add(7, user_name=user)
        desk.rest.touch("jobs")
        tabs[path] = page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "requestfailed", lambda lost: wrong.append(lost.url) if "/js/" in lost.url else None
        )
        page.goto(f"{origin}{path}/#code={code(desk, user)}")
        page.wait_for_selector(f"#user >> text={user}", state="attached")
        wait_until(page, FIRST_EVENT.replace("'/js", f"'{path}/js"))
    cookies = {cookie["path"]: cookie for cookie in context.cookies()}
    assert sorted(cookies) == ["/a/", "/b/"]
    for (path, page), user in zip(tabs.items(), ("kim", "lee"), strict=True):
        page.reload()
        page.wait_for_selector(f"#user >> text={user}", state="attached")
        page.goto(f"{origin}{path}/#jobs/all")
        page.wait_for_selector("td >> text=7")
        page.goto(f"{origin}{path}/#api")
        page.wait_for_selector(f"code >> text={origin}{path}/api/openapi.json")
    tabs["/a"].click("#logout")
    tabs["/a"].wait_for_selector("input[name=token]")
    assert [cookie["path"] for cookie in context.cookies()] == ["/b/"]
    tabs["/b"].reload()
    tabs["/b"].wait_for_selector("#user >> text=lee", state="attached")
    assert not wrong


@pytest.mark.parametrize("prefix", ["corral", "/a/../b", "//evil.example", "/a;b", "/a b"])
def test_a_prefix_that_is_no_path_changes_nothing(prefix: str) -> None:
    with served(DeskRest()) as desk:
        reply = httpx.post(
            f"{desk.url}api/login",
            json={"token": desk.rest.login("kim")},
            headers={"X-Forwarded-Prefix": prefix},
            timeout=60,
            trust_env=False,
        )
        assert "; path=/;" in f"{reply.headers['set-cookie'].lower()};"
