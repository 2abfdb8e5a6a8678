"""The description of the API as a page: found by a search, by keyboard, by its address."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import wait_until
from tests.browser.desk import DeskRest, pictures, served, tab, window
from tests.browser.test_access import in_both_themes

__all__ = ["window"]
OPERATION = "details.operation"


def test_the_description_breaks_no_rule_of_axe(window: Any) -> None:
    with served(DeskRest()) as desk, tab(window, desk) as page:
        for address in ("#api/operation/GET%20%2Fapi%2Fjobs", "#api/type/JobDetail"):
            page.evaluate("(address) => { location.hash = address; }", address)
            page.wait_for_selector("h2:text-is('REST API')")
            assert not in_both_themes(page)


def test_an_operation_is_searched_opened_by_keyboard_and_has_an_address(window: Any) -> None:
    with served(DeskRest()) as desk, tab(window, desk) as page:
        page.click("#user")
        page.click("a:text-is('Operations of the API')")
        page.wait_for_selector(OPERATION)
        assert page.locator(OPERATION).count() > 60
        page.keyboard.press("/")
        page.keyboard.type("no such operation")
        wait_until(page, f"document.querySelectorAll('{OPERATION}').length === 0")
        page.keyboard.press("Control+A")
        page.keyboard.type("bulk cancel each")
        wait_until(page, f"document.querySelectorAll('{OPERATION}').length === 1")
        assert page.url.endswith("#api?q=bulk+cancel+each")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"{OPERATION} pre")
        example = page.locator(f"{OPERATION} pre").inner_text()
        assert f"{desk.url}api/bulk/jobs/cancel" in example
        assert "-H @ci.header" in example
        assert "submit" in page.locator(f"{OPERATION} dt:text-is('needs') + dd").inner_text()
        pictures(page, "api")
        page.reload()  # at the address of the operation
        page.wait_for_selector(f"{OPERATION}[open] code:text-is('/api/bulk/jobs/cancel')")
        page.click("dd a:text-is('BulkResult')")
        page.wait_for_selector("h2:text-is('BulkResult')")
        page.click("td a:text-is('FailedOne')")
        page.wait_for_selector("td code:text-is('hint')")
        page.go_back()
        page.wait_for_selector("h2:text-is('BulkResult')")
