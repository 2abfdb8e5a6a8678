"""The page of a job that failed: why, next to what; and what a job by form may choose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import wait_until
from tests.browser.desk import pictures
from tests.browser.helper_double import Desk, desk
from tests.browser.test_access import in_both_themes

EVIL = "ValueError: \x1b[31m<img src=x onerror=alert(1)>\x1b[0m \u202eno such\x00 file"
TRACEBACK = f"""\
epoch 1
Traceback (most recent call last):
  File "/shared/train.py", line 3, in <module>
    main()
{EVIL}
"""


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    with desk(chromium, tmp_path) as view:
        folder = tmp_path / "job"
        folder.mkdir()
        (folder / "batch.log").write_text(TRACEBACK)
        view.helper.folders[1] = folder
        ended(view, "FAILED", 1)
        yield view


def ended(at: Desk, state: str, status: int) -> None:
    job = at.job(1)
    job["job_state"], job["state_reason"] = [state], "NonZeroExitCode"
    job["exit_code"]["return_code"]["number"] = status
    job["end_time"]["number"] = int(time.time())
    at.rest.touch("jobs")


TRAINING = """\
#!/bin/bash
#SBATCH --job-name=train-resnet
#SBATCH --nodes=1 --gpus-per-node=1 --time=4:00:00
srun torchrun --nproc-per-node=1 train.py --epochs 90
"""


def test_a_running_job_as_the_guide_shows_it(
    chromium: Any, tmp_path: Path, shoot: Callable[[Any, str], None]
) -> None:
    with desk(chromium, tmp_path) as view:
        job = view.job(1)
        now = int(time.time())
        job["name"], job["job_state"] = "train-resnet", ["RUNNING"]
        job["current_working_directory"] = "/shared/resnet"
        job["standard_output"] = "/shared/resnet/slurm-1.out"
        job["submit_time"]["number"] = now - 815
        job["start_time"] = {**job["start_time"], "set": True, "number": now - 754}
        job["time_limit"] = {"set": True, "infinite": False, "number": 240}
        view.rest.touch("jobs")
        log = tmp_path / "job" / "batch.log"
        log.parent.mkdir()
        steps = range(0, 1000, 50)
        losses = "".join(
            f"epoch 3 step {n:4} loss {2.1 - n / 2000:.4f} 1180 img/s\n" for n in steps
        )
        log.write_text(f"world size 1, resuming from epoch 3\n{losses}")
        view.helper.folders[1], view.helper.scripts[1] = log.parent, TRAINING
        view.open("job/1")
        view.page.wait_for_selector(".log >> text=step  950")
        view.page.wait_for_selector("text=#SBATCH --job-name=train-resnet")
        assert view.page.locator("h1").inner_text().startswith("train-resnet")
        shoot(view.page, "ui-job")


def card(at: Desk, title: str) -> Any:
    shown = at.page.locator(".card", has=at.page.locator(f"h2:text-is('{title}')"))
    shown.wait_for()
    return shown


def test_a_failed_jobs_page_begins_with_why(at: Desk) -> None:
    at.open("job/1")
    why = card(at, "Why it failed")
    why.locator(".finding").wait_for()
    text = why.inner_text()
    assert "the job's own program failed" in text
    assert "at /shared/train.py line 3" in text
    assert "exit status 1" in text
    why.locator("summary:text-is('Evidence')").click()
    evidence = why.locator("pre").inner_text()
    assert "ValueError: <img src=x onerror=alert(1)>" in evidence
    assert evidence.replace("\n", "").isprintable()
    assert why.locator("img").count() == 0
    assert why.locator("a:text-is('Edit and submit again')").count() == 1
    assert at.page.locator("a:text-is('Edit and submit again')").count() == 1
    assert not in_both_themes(at.page)
    pictures(at.page, "job-failed")


def test_the_pages_width_is_used_and_a_phones_too(at: Desk) -> None:
    at.open("job/1")
    page = at.page
    card(at, "Why it failed").locator(".finding").wait_for()
    page.wait_for_selector(".log >> text=epoch 1")
    page.set_viewport_size({"width": 1440, "height": 900})
    facts = page.locator(".columns dl.facts").first
    log = page.locator(".log")
    left, right = facts.bounding_box(), log.bounding_box()
    assert left and right
    assert left["x"] + left["width"] < right["x"]
    assert left["y"] < right["y"] + right["height"] and right["y"] < left["y"] + left["height"]
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    left, right = facts.bounding_box(), log.bounding_box()
    assert left and right
    assert left["y"] + left["height"] < right["y"]


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (None, "3.0 GiB asked for, its use was not measured"),
        (3071, "3.0 GiB asked for, 3.0 GiB used"),
        (12, "3.0 GiB asked for, 12 MiB used"),
    ],
)
def test_memory_is_what_was_asked_for_and_used(at: Desk, measured: int | None, words: str) -> None:
    ended(at, "OUT_OF_MEMORY", 0)
    job = at.job(1)
    job["tres_req_str"] = job["tres_alloc_str"] = "cpu=1,mem=3G,node=1,billing=1"
    if measured is not None:
        (past,) = at.rest.bodies["past-job"]["body"]["jobs"][:1]
        past["job_id"] = 1
        for most in past["steps"][0]["tres"]["requested"]["total"]:
            if most["type"] == "mem":
                most["count"] = measured << 20
    (at.helper.folders[1] / "batch.log").unlink()
    at.open("job/1")
    why = card(at, "Why it failed")
    why.locator(".finding").wait_for()
    text = why.inner_text()
    assert "the job used more memory than it asked for" in text
    assert "Without its output" in text
    assert f"{words}\n" in f"{text}\n", text


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("Operator", ["the job used more memory than it asked for", "kim alone reads it"]),
        ("None", ["state\nout of memory", "ended\n"]),
    ],
)
def test_who_is_not_its_owner_sees_why_without_the_output(
    at: Desk, role: str, words: list[str]
) -> None:
    ended(at, "OUT_OF_MEMORY", 0)
    (at.helper.folders[1] / "batch.log").write_text("a secret of kim\n")
    page = at.page
    page.click("#logout")
    page.fill("input[name=token]", at.rest.login("lee", role))
    page.click("text=Log in with the token")
    page.wait_for_selector("#user:not(:empty)", state="attached")
    at.open("job/1")
    why = card(at, "Why it failed")
    why.locator("dl.facts").wait_for()
    for text in words:
        assert text in why.inner_text()
    assert ("time limit" in why.inner_text()) == (role == "Operator")
    assert "secret" not in page.inner_text("main")
    assert page.locator("a:text-is('Edit and submit again')").count() == 0
    assert not [asked for asked in at.helper.asked if asked["do"] == "log"]
    assert not in_both_themes(page)
    pictures(page, f"job-failed-{role}")


def test_what_is_free_and_when_a_job_would_start(at: Desk) -> None:
    at.open("submit")
    page = at.page
    page.wait_for_selector("select#field-partition")
    options = page.locator("#field-partition option").all_inner_texts()
    assert options[0].startswith("the default one")
    assert any("idle" in option and "free" in option for option in options[1:])
    at.helper.expected = {"start_at": int(time.time()) + 7200, "nodes": "node1"}
    page.fill("#field-command", "hostname")
    page.click("summary:text-is('More')")
    page.fill("#field-array", "0-11")
    page.fill("#field-at_once", "3")
    page.click("text=Show the batch script")
    page.wait_for_selector("text=12 jobs as one array, 3 of them at once at most.")
    page.wait_for_selector("text=/Slurm would start it at .* in (2 h|1 h 59 min) on node1/")
    pictures(page, "submit")
    page.click("button:text-is('By script')")
    page.wait_for_selector("select[name=partition] option:has-text('idle')", state="attached")
    options = page.locator("select[name=partition] option").all_inner_texts()
    assert any("idle" in option and "free" in option for option in options[1:])
    page.fill("textarea[name=script]", "#!/bin/sh\n#SBATCH --array=0-3 -o %A.txt\nhostname\n")
    wait_until(page, "document.querySelector('input[name=array]').value === '0-3'")
    assert page.input_value("input[name=output]") == "%A.txt"
    page.select_option("select[name=partition]", index=1)
    pictures(page, "submit-script")
    with page.expect_request("**/api/jobs") as sent:
        page.click("form button:text-is('Submit')")
    body = sent.value.post_data_json
    assert body["partition"] == page.input_value("select[name=partition]")
    assert "array" not in body, "it is in the script"
    page.reload()
    page.click("button:text-is('By form')")
    page.click("button:text-is('Start over')")
    page.fill("#field-command", "hostname")
    page.click("summary:text-is('More')")
    refused = {"code": "slurm-refused", "message": "Slurm refused it", "fields": {"qos": "no"}}
    at.helper.expected = {"error": refused}
    page.fill("#field-nodes", "1")
    page.click("text=Show the batch script")
    page.locator("#fault-qos").wait_for()
    assert page.evaluate("document.activeElement.id") == "field-qos"
