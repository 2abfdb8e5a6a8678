"""A request that is lost as the page opens: it is repeated, also where nothing else happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.web.routes import view
from tests.browser.conftest import patient, until, wait_until
from tests.browser.desk import NODES, DeskRest, served, tab, window
from tests.browser.views_world import busy

__all__ = ["window"]


def lose(page: Any, address: str, how: str) -> list[str]:
    """Lose the next request to an address; returns the list of those that were lost."""
    lost: list[str] = []

    def answered(route: Any) -> None:
        if lost:
            route.continue_()
            return
        lost.append(route.request.url)
        if how == "refused":
            route.abort("connectionrefused")
        elif how == "busy":
            route.fulfill(status=503, json={"error": {"code": "internal", "message": "busy"}})

    page.route(address, answered)
    return lost


SOON = """const timeout = AbortSignal.timeout.bind(AbortSignal);
AbortSignal.timeout = () => timeout(500);"""
"""What the page waits a minute for counts as lost after half a second."""


@pytest.mark.parametrize(
    ("address", "how"),
    [
        ("**/api/me", "refused"),
        ("**/api/me", "busy"),
        (NODES, "refused"),
        (NODES, "busy"),
        (NODES, "silent"),
    ],
)
def test_a_lost_request_is_repeated(
    window: Any, monkeypatch: pytest.MonkeyPatch, address: str, how: str
) -> None:
    """Of the session no login is asked for; nodes come though the cluster is at rest."""
    monkeypatch.setattr(view, "KEEP_S", 0.5)
    rest = DeskRest()
    rest.nodes(3)
    with served(rest) as desk, tab(window, desk) as page:
        page.wait_for_selector(".node")
        lost = lose(page, address, how)
        if how == "silent":
            page.add_init_script(SOON)
        page.reload()
        page.wait_for_selector(".node")
        assert page.locator(".node").count() == 3
        assert len(lost) == 1
        assert not page.locator("input[name=token]").count()


def test_a_part_of_a_jobs_page_is_asked_for_again_and_unknown_until_then(
    window: Any, tmp_path: Path
) -> None:
    """A lost answer was shown as a job without environment, tracked run and profile, for good."""
    environment = [["LR", "0.1"]]
    with busy(tmp_path) as desk, tab(window, desk) as page:
        lost = lose(page, "**/api/jobs/3001/extras", "busy")
        page.route(
            "**/api/jobs/3001/extras",
            lambda route: (
                route.fallback()
                if not lost
                else route.fulfill(
                    json={
                        "environment": environment,
                        **{"run": "", "tracking": "", "recordings": []},
                    }
                )
            ),
        )
        page.evaluate("location.hash = 'job/3001'")
        unknown = page.locator("text=Environment, tracked run and profile are unknown: ")
        unknown.wait_for()
        page.locator("summary >> text=Environment of its first process").wait_for()
        assert len(lost) == 1
        assert unknown.count() == 0


@pytest.mark.parametrize("how", ["refused", "busy"])
@pytest.mark.parametrize(
    ("source", "place", "ready"),
    [
        ("js/lib/view.js", "cluster", ".node"),
        ("vendor/preact.mjs", "cluster", ".node"),
        ("js/app.js", "cluster", ".node"),
        ("app.css", "cluster", ".node"),
        ("js/jobs/jobs.js", "jobs", "text=The queue is empty"),
        ("js/jobs/submit.js", "submit", "textarea"),
    ],
)
def test_a_lost_source_is_opened_again(
    window: Any, source: str, place: str, ready: str, how: str
) -> None:
    """Three times: a page showed Loading, or a failure, until somebody opened it again."""
    rest = DeskRest()
    rest.nodes(3)
    with served(rest) as desk, tab(window, desk) as page:
        page.wait_for_selector(".node")
        lost = lose(page, f"**/{source}", how)
        page.goto("about:blank")
        page.goto(f"{desk.url}#{place}")
        page.wait_for_selector(ready)
        assert len(lost) == 1
        # Styles that are lost show the page without them, until it is opened again.
        came = "document.styleSheets.length > 0 && sessionStorage.getItem('reopened') === null"
        wait_until(page, came)


def test_a_source_that_never_comes_is_not_opened_again_without_end(window: Any) -> None:
    rest = DeskRest()
    with served(rest) as desk, tab(window, desk) as page:
        asked: list[str] = []

        def refuse(route: Any) -> None:
            asked.append(route.request.url)
            route.abort("connectionrefused")

        page.route("**/js/jobs/jobs.js", refuse)
        page.goto("about:blank")
        page.goto(f"{desk.url}#jobs")
        until(page, lambda: len(asked) >= 4, "opened three times again")
        page.wait_for_selector(".card h2")
        page.wait_for_timeout(2000)
        assert len(asked) == 4


def test_a_lost_login_is_sent_again(window: Any) -> None:
    rest = DeskRest()
    rest.nodes(3)
    with served(rest) as desk:
        context = patient(window)
        page = context.new_page()
        lost = lose(page, "**/api/login/code", "refused")
        page.goto(f"{desk.url}#code={desk.code('kim', 'None')}")
        page.wait_for_selector(".node")
        assert len(lost) == 1
        context.close()


@pytest.mark.parametrize("place", ["policy", "mine", "timeline", "api"])
def test_each_lost_answer_is_asked_for_again(window: Any, place: str) -> None:
    """Each of a page's own questions is lost once."""
    rest = DeskRest()
    rest.nodes(3)
    with served(rest) as desk, tab(window, desk) as page:
        page.wait_for_selector(".node")
        lost: set[str] = set()

        def once(route: Any) -> None:
            address = route.request.url.partition("?")[0]
            if address in lost or route.request.method != "GET":
                route.continue_()
                return
            lost.add(address)
            route.abort("connectionreset")

        page.route("**/api/**", once)
        page.evaluate(f"location.hash = '{place}'")
        page.wait_for_selector("main :is(.card, table)")
        page.wait_for_timeout(3000)
        assert lost
        assert "does not answer" not in page.inner_text("main")
