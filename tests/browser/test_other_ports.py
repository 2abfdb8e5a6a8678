"""Other servers of the same host, as a browser knows them: it has one jar of cookies for all."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.browser.conftest import LIVE, Served, Terminal, patient, wait_until

READING = """async (url) => { const answers = [];
  for (const credentials of ["include", "omit"]) {
    try { answers.push((await fetch(`${url}api/me`, {credentials})).status); }
    catch (error) { answers.push(error.name); }
  }
  return [answers, Object.keys(localStorage)]; }"""


def test_a_hostile_server_on_another_port_opens_nothing(
    chromium: Any, served: Served, state: Any
) -> None:
    cookies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>other</title>")

        def log_message(self, format: str, *args: Any) -> None: ...

    other = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    context = patient(chromium, storage_state=state)
    try:
        page = context.new_page()
        page.goto(served.url)
        page.wait_for_selector(".node")
        page.goto(f"http://127.0.0.1:{other.server_address[1]}/")
        assert "corral_session" in cookies[0]  # the browser does send it
        assert page.evaluate(READING, served.url) == [["TypeError", "TypeError"], []]
        with httpx.Client(base_url=served.url, headers={"Cookie": cookies[0]}) as thief:
            assert thief.get("api/me").status_code == 401
            assert thief.get("api/events").status_code == 401
            assert thief.post("api/ticket", json={}).status_code == 401
        again = context.new_page()  # another tab of the page is logged in
        again.goto(served.url)
        again.wait_for_selector(".node")
        wait_until(again, LIVE)
    finally:
        context.close()
        other.shutdown()


def test_two_pages_on_one_host(chromium: Any, terminal: Terminal) -> None:
    context = patient(chromium)
    try:
        pages: list[Any] = []
        for _ in range(2):
            served = terminal.open()
            page = context.new_page()
            page.goto(f"{served.url}#code={served.code}")
            page.wait_for_selector(".node")
            pages.append(page)
        for page in pages:
            page.reload()
            page.wait_for_selector(".node")
    finally:
        context.close()
