"""Tokens of the API: listed and revoked on the page; a program is refused from then on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from corral.api.page.token_store import Scope, Wish
from tests.browser.conftest import wait_until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.browser.helper_double import spec

__all__ = ["window"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    rest = DeskRest()
    rest.nodes(3)
    rest.add(1)
    with served(rest, spec=spec(), service=True, tokens=tmp_path / "tokens.json") as made:
        yield made


def test_a_token_is_revoked_on_the_page(window: Any, desk: Desk) -> None:
    bearers = desk.app.state.corral.bearers
    made = {
        name: bearers.make(
            Wish(name, user, desk.rest.login(user), scopes, time.time() + 86400 * 30)
        )[0]
        for name, user, scopes in (
            ("ci", "kim", (Scope.READ, Scope.SUBMIT)),
            ("dashboard", "kim", (Scope.READ,)),
            ("hers", "ada", (Scope.READ,)),
        )
    }
    headers = {"Authorization": f"Bearer {made['ci']}"}
    with httpx.Client(base_url=f"{desk.url}api/", headers=headers, trust_env=False) as http:
        assert len(http.get("nodes").raise_for_status().json()["rows"]) == 3
        assert http.post("jobs/1", json={"do": "cancel"}).status_code == 200
        assert http.post("nodes/gpu001", json={"do": "resume"}).status_code == 403
        with tab(window, desk) as page:
            page.click("#user")
            page.wait_for_selector("tr >> text=dashboard")
            assert page.locator("tbody tr").count() == 2  # not ada's
            assert made["ci"] not in page.content()
            pictures(page, "tokens")
            page.click("[aria-label='Revoke ci']")
            page.click("dialog button[type=submit]")
            wait_until(page, "document.querySelectorAll('tbody tr').length === 1")
        assert http.get("nodes").status_code == 401


def test_an_open_stream_ends_with_its_token(desk: Desk) -> None:
    bearers = desk.app.state.corral.bearers
    wish = Wish("x", "kim", desk.rest.login("kim"), (Scope.READ,), time.time() + 600)
    secret, bearer = bearers.make(wish)
    headers = {"Authorization": f"Bearer {secret}"}
    with (
        httpx.Client(base_url=f"{desk.url}api/", headers=headers, trust_env=False) as http,
        http.stream("GET", "events", timeout=240) as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith("data: ")
        bearers.revoke(bearer.id)
        # It is seen with the next news, or after 15 s without any.
        rest = list(lines)
    assert "event: logout" in rest
