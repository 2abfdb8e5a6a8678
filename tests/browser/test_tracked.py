"""A job's run in MLflow, its profile and timeline, clicked in a real browser."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.sections.services import Services
from tests.browser.conftest import Terminal, patient, run_root
from tests.embedded.conftest import EXAMPLES, Live

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tracked(
    cluster: Live, people: object, terminal: Terminal, chromium: Any
) -> Iterator[tuple[Any, str]]:
    """The shared cluster with MLflow, its page in a browser; without MLflow again at the end."""
    spec = cluster.spec.model_copy(update={"services": Services(mlflow=True)})
    with ThreadPoolExecutor(1) as pool:  # Playwright's loop runs in this thread
        try:
            pool.submit(lambda: asyncio.run(api.up(spec))).result()
        except CorralError as error:
            if error.command == "pip download":
                pytest.skip(f"no package index: {error}")
            raise
    file = terminal.file.with_name("tracked.yaml")
    file.write_text(f"{terminal.file.read_text()}\nservices: {{mlflow: true}}\n")
    other = Terminal(file)
    served = other.open()
    context = patient(chromium, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{served.url}#code={served.code}")
    page.wait_for_selector(".node")
    yield page, served.url
    context.close()
    other.close()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(api.up(cluster.spec))).result()


def test_run_and_profile_are_a_click_away(tracked: Any, cluster: Live) -> None:
    page, url = tracked
    script = (EXAMPLES / "train_digits.py").read_text()
    put = sh("printf %s {t} >{f}; chmod 644 {f}", t=script, f="/shared/digits.py")
    run_root(cluster, cluster.controller, put)
    page.goto(f"{url}#submit")
    page.fill("#field-script", "/shared/digits.py")
    page.fill("#field-args", "--epochs 1 --min-accuracy 0")
    page.fill("#field-env", "CORRAL_PROFILE_STEPS=2")
    page.fill("#field-nodes", "1")
    page.click("summary >> text=More")
    page.select_option("#field-profile", "torch")
    page.click("text=Show the batch script")
    page.wait_for_selector("pre >> text=#SBATCH --nodes=1")
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/\d+"))
    page.wait_for_selector("h1 >> text=completed")
    page.wait_for_selector("table.profile >> text=ms/step")
    assert page.locator("table.profile tbody tr").count() == 1
    with page.expect_download() as download:
        page.click("text=Download the timeline")
    merged = json.loads(gzip.decompress(Path(download.value.path()).read_bytes()))
    assert len(merged["traceEvents"]) > 100
    with page.context.expect_page() as opened:
        page.click("text=Its run in MLflow")
    mlflow = opened.value
    assert mlflow.url.startswith("http://127.0.0.1:")
    run = mlflow.url.rpartition("/")[2]
    assert re.fullmatch(r"[0-9a-f]{32}", run)
    # MLflow itself shows this run: its number is on the page, not only in the address.
    mlflow.wait_for_selector(f"text={run}")
    mlflow.close()
