"""A daemon that answers no more is named on the page within the time that the guide states."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.browser.conftest import LIVE, wait_until
from tests.browser.desk import Desk, DeskRest, served, tab, window
from tests.browser.noticed import assert_noticed_soon, watch

__all__ = ["window"]


class Silent(DeskRest):
    """slurmrestd that takes connections and answers nothing, once it is frozen."""

    frozen = False

    def __call__(self, request: httpx.Request) -> Any:
        return self._never(request) if self.frozen else super().__call__(request)

    async def _never(self, request: httpx.Request) -> httpx.Response:
        """A transport without sockets keeps no time: the limit of the question is kept here."""
        end = time.monotonic() + request.extensions["timeout"]["read"]
        while self.frozen and time.monotonic() < end:  # noqa: ASYNC110  # another thread ends it
            await asyncio.sleep(0.05)
        raise httpx.ReadTimeout("no answer", request=request)


@pytest.fixture
def desk() -> Iterator[Desk]:
    rest = Silent()
    rest.nodes(2)
    with served(rest) as made:
        yield made
        rest.frozen = False


def test_a_daemon_that_answers_no_more_is_named_within_5_s(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        wait_until(page, LIVE)
        watch(page)
        rest: Any = desk.rest
        rest.frozen = True
        gone_at = time.time()
        page.wait_for_selector("#banner:not([hidden])")
        assert_noticed_soon(page, gone_at)
        rest.frozen = False
        page.wait_for_selector("#banner", state="hidden")
