"""Several clusters in one page: each with its own login; one of them stops, one is hostile."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.browser.conftest import until, wait_until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window

__all__ = ["window"]

CARD = "(name) => document.querySelector(`section.card[aria-label='${name}']`)?.innerText || ''"
MATCHES = "(name) => [...document.querySelectorAll('.clusters[aria-live] .card')].find((card) => \
card.querySelector('h2').textContent === name)?.innerText || ''"


def card(page: Any, name: str, words: str, expression: str = CARD) -> str:
    """What a cluster's card shows, once the words are in it."""
    shown = f"([name, words]) => {{ const text = ({expression})(name); \
return text.includes(words) && text; }}"
    return wait_until(page, shown, [name, words])


def slurm(nodes: int, **jobs: str) -> DeskRest:
    rest = DeskRest()
    rest.nodes(nodes)
    for number, (name, user) in enumerate(jobs.items(), 7):
        rest.add(number, name=name, user_name=user)
    return rest


@pytest.fixture
def pair() -> Iterator[tuple[Desk, Desk]]:
    """Two pages that know each other, as ``corral ui east.yaml west.yaml`` serves them."""
    ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    urls = [f"http://127.0.0.1:{port.getsockname()[1]}" for port in ports]
    with (
        served(slurm(3, train="kim"), ports[0], cluster="east", clusters={"west": urls[1]}) as east,
        served(slurm(5, bench="eve"), ports[1], cluster="west", clusters={"east": urls[0]}) as west,
    ):
        yield east, west


def log_in(page: Any, desk: Desk, user: str = "eve") -> None:
    """Log in at another cluster's page, in another tab of the same browser."""
    other = page.context.new_page()
    other.goto(f"{desk.url}#code={desk.code(user)}")
    other.wait_for_selector("#user:not(:empty)", state="attached")
    other.close()


def clusters(page: Any, desk: Desk, query: str = "") -> None:
    page.goto(f"{desk.url}#clusters{query}")


def test_two_clusters_and_one_search(window: Any, pair: tuple[Desk, Desk]) -> None:
    east, west = pair
    with tab(window, east) as page:
        page.keyboard.press("o")
        assert "logged out" in card(page, "west", "not logged in").lower()
        assert "3 of 3 take jobs" in card(page, "east", "take jobs")
        log_in(page, west)
        shown = card(page, "west", "take jobs")
        assert "5 of 5 take jobs" in shown
        assert "eve" in shown
        page.keyboard.press("/")
        page.keyboard.type("e")
        assert "train" in card(page, "east", "train", MATCHES)
        assert "bench" in card(page, "west", "bench", MATCHES)
        assert "q=e" in page.url
        pictures(page, "clusters")
        match = page.locator(".clusters[aria-live] a", has_text="bench")
        assert match.get_attribute("href") == f"{west.url}#job/7"
        page.set_viewport_size({"width": 390, "height": 844})
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert page.evaluate(wide)
        page.locator("#switch select").select_option("west")
        page.wait_for_url(f"{west.url}#clusters")
        assert "3 of 3 take jobs" in card(page, "east", "take jobs")


def test_a_stopped_cluster_is_unknown_and_delays_nobody(
    window: Any, pair: tuple[Desk, Desk]
) -> None:
    east, west = pair
    with tab(window, east) as page:
        log_in(page, west)
        clusters(page, east)
        card(page, "west", "5 of 5 take jobs")
        west.stop()
        shown = card(page, "west", "Unknown now")
        assert "5 of 5 take jobs" in shown  # what was known, with its age
        assert "old" in shown
        assert "live" in card(page, "east", "live").lower()
        page.fill("input[type=search]", "train")
        assert "train" in card(page, "east", "train", MATCHES)
        assert "Unknown" in card(page, "west", "Unknown", MATCHES)
        assert "Nothing found" not in page.inner_text(".clusters[aria-live]")
        page.reload()  # now it was never seen
        assert "Unknown: its page does not answer" in card(page, "west", "does not answer")
        pictures(page, "clusters-down")
        assert "live" in card(page, "east", "live").lower()


HOSTILE = """<!doctype html><script>
onmessage = (event) => {
  const { number, ask } = event.data;
  const tried = [];
  for (const name of ["localStorage", "document", "location"]) {
    try { tried.push(String(parent[name].href ?? parent[name].session ?? parent[name])); }
    catch (error) { tried.push(error.name); }
  }
  try { top.location = "/taken"; } catch (error) { tried.push(error.name); }
  try { open("/popup"); } catch (error) { tried.push(error.name); }
  fetch("/tried", { method: "POST", body: JSON.stringify({ ask, tried, heard: event.data }) });
  const evil = "<img src=x onerror=alert(1)>".repeat(1000);
  const job = { id: 7, label: evil, name: evil, user: evil, state: evil, kind: evil, nodes: evil };
  const data = ask === "search"
    ? { jobs: Array(9999).fill(job), jobs_total: 9999, nodes: [], nodes_total: 0, users: [],
        users_total: 0, users_known: true, known: true, trouble: evil }
    : { nodes: evil };
  event.source.postMessage({ corral: 1, number, data }, event.origin);
  event.source.postMessage({ corral: 1, number: number + 1, data: "early" }, event.origin);
};
</script>"""


class Hostile:
    """A server in the place of another cluster's page; it keeps all that it is sent."""

    def __init__(self) -> None:
        self.headers: list[str] = []
        self.tried: list[dict[str, Any]] = []
        hostile = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hostile.headers.append(str(self.headers).lower())
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(HOSTILE.encode())

            def do_POST(self) -> None:
                hostile.headers.append(str(self.headers).lower())
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hostile.tried.append(json.loads(body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    made = Hostile()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_hostile_cluster_gets_no_secret_and_shows_no_markup(
    window: Any, hostile: Hostile
) -> None:
    with (
        served(slurm(3, train="kim"), cluster="east", clusters={"evil": hostile.url}) as east,
        tab(window, east) as page,
    ):
        secret = page.evaluate("localStorage.getItem('session')")
        clusters(page, east)
        assert "cannot read" in card(page, "evil", "cannot read")
        page.fill("input[type=search]", "train")
        shown = card(page, "evil", "9,999 jobs", MATCHES)
        assert "<img src=x onerror=alert(1)>" in shown  # a text, and cut
        assert len(shown) < 50_000
        assert page.evaluate("document.querySelector('main img')") is None
        assert "train" in card(page, "east", "train", MATCHES)
        assert page.url.startswith(east.url)
        assert len(page.context.pages) == 1
        both = {"summary", "search"}  # they arrive in other threads than the answers
        until(page, lambda: both <= {each["ask"] for each in hostile.tried}, "both questions")
        tried = [word for each in hostile.tried for word in each["tried"]]
        assert all("Error" in word for word in tried if word != "null"), tried
        heard = {key for each in hostile.tried for key in each["heard"]}
        assert heard == {"corral", "number", "ask", "text"}
        sent = "".join([*hostile.headers, json.dumps(hostile.tried)])
        assert secret not in sent
        assert "x-csrf-token" not in sent
        assert f"referer: {east.url}".lower() not in sent


def test_a_page_that_is_not_named_cannot_ask(
    window: Any, hostile: Hostile, pair: tuple[Desk, Desk]
) -> None:
    """The browser sends it the cookie of this host; the reader is not framed by it."""
    east, _ = pair
    asking = """(url) => new Promise((resolve) => {
      const frame = document.createElement("iframe");
      addEventListener("message", ({ data }) => resolve(data));
      frame.onload = () => {
        frame.contentWindow.postMessage({ corral: 1, number: 1, ask: "summary" }, "*");
        setTimeout(() => resolve("no answer"), 3000);
      };
      frame.src = `${url}reader.html`;
      document.body.append(frame);
    })"""
    with tab(window, east) as page:
        other = page.context.new_page()
        other.goto(f"{hostile.url}/")
        assert other.evaluate(asking, east.url) == "no answer"
