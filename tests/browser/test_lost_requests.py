"""A request that is lost as the page opens: it is repeated, also where nothing else happens."""

from __future__ import annotations

from typing import Any

import pytest

from corral.web.routes import view
from tests.browser.desk import NODES, DeskRest, served, tab, window

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
