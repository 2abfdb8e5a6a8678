"""The rest of a job's page, reports, the doctor's plan; and the page without slurmrestd."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.hosts.quote import sh
from tests.browser.conftest import FETCHED, Browser, Served, Terminal, patient, run_root, until
from tests.browser.test_page import Shoot, go, submit_script
from tests.embedded.conftest import Live

FILL = "/shared/ui-test-fill"
USING = (
    f"#!/bin/sh\nexport DEMO_TOKEN=visible\nuntil [ -e {FILL} ]; do sleep 0.2; done\n"
    "exec python3 -c 'x = bytearray(300_000_000)\nwhile True: sum(range(1000000))'\n"
)


def test_a_jobs_use_over_time_and_its_environment(
    owner: Browser, served: Served, cluster: Live, shoot: Shoot
) -> None:
    """No metrics are declared: the job's node is sampled while the page is open."""
    run_root(cluster, cluster.controller, sh("rm -f {f}", f=FILL))
    job = submit_script(owner, served, USING, "using")
    page = owner.page
    page.wait_for_selector("h1 >> text=running")
    page.wait_for_selector("figcaption >> text=/Memory, [GM]iB/")
    page.wait_for_selector("figcaption >> text=Processors in use")
    # The text is updated as the curve is.
    run_root(cluster, cluster.controller, sh("touch {f}", f=FILL))

    def used() -> float:
        label = page.locator("figure.curve", has_text="Memory").get_attribute("aria-label") or ""
        unit, value = re.findall(r", ([GM])iB.*node\d ([\d,.]+)", label)[0]
        return float(value.replace(",", "")) * {"M": 1, "G": 1024}[unit]

    until(page, lambda: used() > 256, "the memory grows")
    assert used() < 1024
    page.click("text=Environment of its first process")
    row = page.locator("details tr", has_text="SLURM_JOB_ID")
    assert row.locator("td").nth(1).inner_text() == str(job)
    shoot(page, "ui-job-use")
    page.click("button:text-is('Cancel')")
    page.click("text=Cancel the job")
    page.wait_for_selector("h1 >> text=cancelled")
    run_root(cluster, cluster.controller, sh("rm -f {f}", f=FILL))


def test_no_secret_of_the_environment_is_shown(owner: Browser, served: Served) -> None:
    script = '#!/bin/sh\nexport DEMO_TOKEN=visible; exec sh -c "sleep 120"\n'
    job = submit_script(owner, served, script, "secret")
    page = owner.page
    page.wait_for_selector("h1 >> text=running")

    def asked() -> dict[str, Any] | None:
        answer = page.evaluate(FETCHED, f"jobs/{job}/extras")["body"]
        return answer if answer["environment"] else None

    extras = until(page, asked, "Slurm reports that it runs before its first process has begun")
    assert "visible" not in json.dumps(extras)
    assert ["SLURM_JOB_ID", str(job)] in extras["environment"]
    page.click("button:text-is('Cancel')")
    page.click("text=Cancel the job")
    page.wait_for_selector("h1 >> text=cancelled")


def test_a_page_that_comes_late_leaves_no_trace(owner: Browser, served: Served) -> None:
    """Somebody goes on while a page is still being loaded."""
    page = owner.page
    page.evaluate("location.hash = 'submit'; location.hash = 'jobs'; location.hash = 'history'")
    page.wait_for_selector("h2 >> text=History")
    assert page.locator("h2 >> text=Submit a job").count() == 0
    assert page.locator("main > .page").count() == 1


def test_reports_with_plots_stand_in_the_page(owner: Browser, served: Served, shoot: Shoot) -> None:
    page = go(owner, served, "proof")
    page.click("text=Prove it now")
    page.wait_for_selector("text=done in")
    page.reload()
    frame = page.frame_locator("iframe.report")
    frame.locator("h1").wait_for()
    assert frame.locator("details").count() > 0
    assert frame.locator("img, link, iframe").count() == 0
    shoot(page, "ui-proof")


@pytest.fixture
def bare(cluster: Live, terminal: Terminal, chromium: Any) -> Iterator[Any]:
    """The page of the same cluster as if it had no slurmrestd: Slurm's commands answer."""
    file = terminal.file.with_name("bare.yaml")
    file.write_text(f"{terminal.file.read_text()}\nslurm: {{rest: false}}\n")
    other = Terminal(Path(file))
    served = other.open()
    context = patient(chromium, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(f"{served.url}#code={served.code}")
    yield page, served
    context.close()
    other.close()


def test_without_slurmrestd_the_commands_answer(bare: Any) -> None:
    page, served = bare
    page.wait_for_selector(".node")
    assert page.locator(".node").count() == 3
    job = submit_script(Browser(page, []), served, "#!/bin/sh\necho hello; sleep 300\n", "plain")
    page.wait_for_selector("h1 >> text=running")
    page.wait_for_selector(".log >> text=hello")
    page.click("text=Change limit")
    page.fill("dialog input", "9")
    page.click("dialog button:text-is('Change')")
    page.wait_for_selector("dd >> text=of 9 min")
    page.click("button:text-is('Cancel')")
    page.click("text=Cancel the job")
    page.wait_for_selector("h1 >> text=cancelled")
    assert job
    past = page.evaluate(FETCHED, "past?days=1")["body"]
    assert past["why"] == ""  # sacct answered
    assert past["total"] > 0
