"""The report in a browser, from disk: drawn in light, in dark and on paper, safe with any name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.report.page import render
from tests.browser.conftest import patient
from tests.unit.report.samples import full
from tests.unit.report.test_page import HOSTILE, hostile

INK = """() => [...document.querySelectorAll(".plot canvas")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let light = 0, dark = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) {
    if (data[i] + data[i + 1] + data[i + 2] > 600) light += 1;
    if (data[i] + data[i + 1] + data[i + 2] < 150) dark += 1;
  }
  return { light, dark };
})"""


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens a report's text from disk; an error or a dialog in it fails the test.

    By the browser of the other tests: Playwright runs once in a process.
    """
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_(text: str, **options: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(text)
        context = patient(chromium, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda r: None if r.url.startswith("file:") else wrong.append(r.url))
        page.goto(file.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize(("scheme", "ink"), [("light", "dark"), ("dark", "light")])
def test_plots_are_drawn_in_the_readers_colours(opened: Any, scheme: str, ink: str) -> None:
    page = opened(render(full()), color_scheme=scheme)
    drawn = page.evaluate(INK)
    assert len(drawn) == 2
    assert all(plot[ink] > 500 for plot in drawn), "axes and names"
    assert page.locator(".u-legend >> text=limit 400 GB/s").count() == 1
    assert page.locator("details.numbers[open]").count() == 0


def test_paper_is_white(opened: Any) -> None:
    page = opened(render(full()), color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(plot["dark"] > 500 for plot in page.evaluate(INK))
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert all(plot["light"] > 500 for plot in page.evaluate(INK))
    page.emulate_media(media="print", color_scheme="dark")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 20_000


def test_numbers_are_open_where_no_script_runs(opened: Any) -> None:
    page = opened(render(full()), java_script_enabled=False)
    assert page.locator("details.numbers[open]").count() == 3
    assert page.locator("td >> text=4 MiB").is_visible()


def test_hostile_names_are_text(opened: Any) -> None:
    page = opened(render(hostile()))
    assert page.locator("script").count() == 2 + page.locator(".plot").count()
    assert page.locator("img").count() == 0
    assert "<script>alert(1)</script>" in page.locator("figcaption").first.inner_text()
    assert "<script>alert(1)</script>" in page.locator(".u-legend").first.inner_text()
    assert HOSTILE


def test_nothing_is_wrong_for_readers_by_ear(opened: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415

    page = opened(render(full()))
    page.evaluate(
        "document.querySelectorAll('details').forEach((details) => { details.open = true; })"
    )
    violations = Axe().run(page).response["violations"]
    assert [
        (violation["id"], [n["html"][:120] for n in violation["nodes"][:3]])
        for violation in violations
    ] == []
