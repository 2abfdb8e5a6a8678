"""A job that only accounting remembers is found, and opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from corral.hosts.quote import sh
from tests.browser.conftest import FETCHED, Browser, Served, run_root
from tests.browser.test_page import go, submit_script
from tests.embedded.conftest import Live

CONF = "/etc/slurm/slurm.conf"
FORGOTTEN = (
    "i=0; while scontrol show job {id} >/dev/null 2>&1; do "
    "i=$((i + 1)); [ $i -lt 40 ] || {{ echo known; exit 0; }}; sleep 1; done; echo forgotten"
)


@pytest.fixture
def forget(cluster: Live) -> Iterator[Callable[[int], None]]:
    """Has slurmctld forget an ended job: it looks for those older than MinJobAge once a minute."""
    lead = cluster.controller
    keep = sh(
        "cp -p {c} {c}.kept; sed -i 's/^MinJobAge=.*//' {c}; echo MinJobAge=2 >> {c}; "
        "scontrol reconfigure",
        c=CONF,
    )
    run_root(cluster, lead, keep)

    def wait(job: int) -> None:
        for _ in range(6):
            if "forgotten" in run_root(cluster, lead, sh(FORGOTTEN, id=job)):
                return
        pytest.fail(f"slurmctld knows job {job} still")

    yield wait
    run_root(cluster, lead, sh("mv {c}.kept {c}; scontrol reconfigure", c=CONF))


@pytest.mark.slow
def test_a_job_that_slurmctld_has_forgotten(
    owner: Browser, served: Served, forget: Callable[[int], None]
) -> None:
    job = submit_script(owner, served, "#!/bin/sh\necho what it reported\nexit 3\n", "bygone")
    page = owner.page
    page.wait_for_selector("h1 >> text=failed")
    forget(job)
    go(owner, served, "jobs/all")
    page.wait_for_selector("button:text-is('Ended')")
    assert page.locator("button:text-is('7 days')").is_hidden()
    page.click("button:text-is('Ended')")
    assert page.locator("button:text-is('7 days')").get_attribute("aria-pressed") == "true"
    page.fill("input[type=search]", "name=bygone state=failed")
    row = page.locator(f"tr[data-job='{job}']")
    row.wait_for()
    page.click("button:text-is('24 hours')")
    row.wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    row.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"#job/{job}"))
    page.wait_for_selector("text=has forgotten this job")
    page.wait_for_selector("dd >> text=exit status 3")
    page.wait_for_selector(".log >> text=what it reported")
    assert page.locator("button:text-is('Requeue')").count() == 0
    gone = page.evaluate(FETCHED, "jobs/2147483646")["status"]
    assert gone == 404
