"""The output of a job: its files, as they grow, parts of a long one, search; what is selected."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import wait_until
from tests.browser.helper_double import NUMBER, Desk, desk

STATUS = "h2:text-is('Output') + span"
STATE = """(state) => import('/js/lib/event_stream.js').then(({ now }) => fetch('api/jobs/1',
  { headers: { 'X-CSRF-Token': localStorage.getItem('session') } })
  .then((reply) => reply.json()).then((job) => job.state === state))"""
BOX = "document.querySelector('.log')"
SELECT = """(words) => { const box = document.querySelector('.log');
  const nodes = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) { const at = nodes.currentNode.nodeValue.indexOf(words);
    if (at < 0) continue;
    const range = new Range(); range.setStart(nodes.currentNode, at);
    range.setEnd(nodes.currentNode, at + words.length);
    getSelection().removeAllRanges(); getSelection().addRange(range); return true; }
  return false; }"""


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    with desk(chromium, tmp_path) as view:
        yield view


def job_of(at: Desk, tmp_path: Path, ranks: int, number: int = 1) -> Path:
    """The folder of a job of Corral's that runs, with files of its ranks."""
    folder = tmp_path / f"job-{number}"
    folder.mkdir()
    (folder / "batch.log").write_text("")
    (folder / "job.json").write_text(f'{{"logs": {ranks}}}')
    for rank in range(ranks):
        (folder / f"rank-{rank}.log").write_text(f"hello of {rank}\n")
    at.helper.folders[number] = folder
    return folder


def appended(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def peak_mib(at: Desk) -> float:
    """The most memory that the page's server has had."""
    status = Path(f"/proc/{at.server}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def text_of(page: Any) -> str:
    return page.locator(".log").inner_text()


def ended(at: Desk, number: int, state: str = "COMPLETED") -> None:
    at.job(number)["job_state"] = [state]
    at.rest.touch("jobs")


def test_all_ranks_bars_and_colours_as_they_come(
    at: Desk, tmp_path: Path, shoot: Callable[[Any, str], None]
) -> None:
    folder, page = job_of(at, tmp_path, 2), at.page
    at.open("job/1")
    page.wait_for_selector(f"{STATUS}:text-is('live')")
    assert text_of(page).split() == ["0:", "hello", "of", "0", "1:", "hello", "of", "1"]
    appended(folder / "rank-0.log", "step 1\n\r  0%|    | 0/9")
    page.wait_for_selector(".log .open >> text=0%|")
    appended(folder / "rank-1.log", "\x1b[31mred\x1b[0m \x1b[38;5;208morange\x1b[0m\n")
    page.wait_for_selector(".log .ink-red >> text=red")
    orange = page.locator(".log span:text-is('orange')").last
    assert orange.evaluate("e => getComputedStyle(e).color") == "rgb(255, 135, 0)"
    appended(folder / "rank-0.log", "\r 50%|##  | 4/9")
    page.wait_for_selector(".log .open >> text=50%|")
    assert "0/9" not in text_of(page)
    shoot(page, "log-live")
    appended(folder / "rank-0.log", "\r100%|####| 9/9\nend\n")
    page.wait_for_selector(".log >> text=end")
    lines = text_of(page).splitlines()
    # A bar stays in its place, above what came meanwhile.
    assert lines.index("0: 100%|####| 9/9") < lines.index("1: red orange")
    assert page.locator(".log .open").count() == 0
    page.select_option("select[aria-label=File]", "rank-1")
    wait_until(page, f"{BOX}.innerText.startsWith('hello of 1')")
    ended(at, 1)
    page.wait_for_selector(f"{STATUS}:text-is('the end')")
    page.wait_for_selector("h1 >> text=completed")


def test_what_is_selected_stays_while_the_log_grows(at: Desk, tmp_path: Path) -> None:
    folder, page = job_of(at, tmp_path, 1), at.page
    rank = folder / "rank-0.log"
    appended(rank, "take this line\n 10%|#  | bar")
    at.open("job/1")
    page.wait_for_selector(".log .open >> text=10%|")
    assert page.evaluate(SELECT, "this line")
    for n in range(2, 5):
        appended(rank, f"\r {n}0%|#  | bar")
        page.wait_for_selector(f".log .open >> text={n}0%|")
        assert page.evaluate("String(getSelection())") == "this line"
    assert page.evaluate(SELECT, "40%|#  | bar")
    appended(rank, "\r 50%|#  | bar\n" + "more\n" * 6000)
    wait_until(page, f"{BOX}.innerText.includes('more')")
    assert page.evaluate("String(getSelection())") == "40%|#  | bar"
    page.evaluate("getSelection().removeAllRanges()")
    appended(rank, "last\n")
    wait_until(page, f"{BOX}.innerText.includes('last')")
    assert page.evaluate(f"{BOX}.innerText.split('\\n').length") <= 5100


def test_a_long_log_in_parts(at: Desk, tmp_path: Path) -> None:
    folder, page = job_of(at, tmp_path, 1), at.page
    rank = folder / "rank-0.log"
    with rank.open("w") as file:
        file.writelines(f"step {n:07d} loss 0.{n * 7919 % 100000:05d}\n" for n in range(2_000_000))
        file.write("the needle\n")
        file.writelines(f"later {n}\n" for n in range(100_000))
    ended(at, 1)
    wait_until(page, STATE, "COMPLETED")
    at.open("job/1")
    page.wait_for_selector(f"{STATUS}:text-is('the end')")
    assert "later 99999" in text_of(page)
    heap = page.evaluate("performance.memory.usedJSHeapSize")
    earlier = page.locator("button:has-text('Earlier part')")
    assert earlier.inner_text() == "Earlier part (53 MB)"
    first = text_of(page).split("\n", 1)[0]
    earlier.click()
    wait_until(page, f"(first) => !{BOX}.innerText.startsWith(first)", first)
    lines = [line for line in text_of(page).splitlines() if line.startswith("later ")]
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), "no line twice, none is missing"
    page.fill("input[aria-label='Search in the output']", "NEEDLE")
    page.keyboard.press("Enter")
    hit = page.locator("button.hit")
    hit.wait_for()
    assert hit.inner_text() == "rank 0 2,000,001 the needle"
    hit.click()
    page.wait_for_selector(".log .at >> text=the needle")
    assert page.locator(".log .at").is_visible()
    assert "step 1999999" in text_of(page)
    assert "later 0" in text_of(page)
    assert page.evaluate("CSS.highlights.get('log-search').size") == 1
    page.click("button:text-is('Later part')")
    wait_until(page, f"{BOX}.innerText.includes('later 20000')")
    page.click("button:text-is('Jump to end')")
    wait_until(page, f"{BOX}.innerText.includes('later 99999')")
    page.wait_for_selector(f"{STATUS}:text-is('the end')")
    page.select_option("select[aria-label=File]", "rank-0")
    page.wait_for_selector(f"{STATUS}:text-is('the end')")
    for _ in range(12):
        page.locator("button:has-text('Earlier part')").click()
        page.wait_for_timeout(100)
    assert page.evaluate(f"{BOX}.textContent.length") < 2_300_000
    assert page.evaluate(f"{BOX}.textContent.split('\\n').length") < 6000
    assert page.evaluate("performance.memory.usedJSHeapSize") < heap + 64_000_000
    with page.expect_download() as saved:
        page.click("button:text-is('Download')")
    assert Path(saved.value.path()).read_bytes() == rank.read_bytes()
    assert saved.value.suggested_filename == "job-1-rank-0.log"


@pytest.mark.slow
def test_a_log_of_1_gb_is_read_in_parts(at: Desk, tmp_path: Path) -> None:
    """A sparse file: what is read of it is as long, and the disk of a test need not hold it."""
    folder, page = job_of(at, tmp_path, 1), at.page
    rank = folder / "rank-0.log"
    with rank.open("w") as file:
        file.truncate(1 << 30)
        file.seek(0, 2)
        file.write("\nthe needle\n")
        file.writelines(f"later {n}\n" for n in range(100_000))
    ended(at, 1)
    wait_until(page, STATE, "COMPLETED")
    before, begun = peak_mib(at), time.monotonic()
    at.open("job/1")
    page.wait_for_selector(f"{STATUS}:text-is('the end')")
    assert "later 99999" in text_of(page)
    shown = time.monotonic()
    page.fill("input[aria-label='Search in the output']", "needle")
    page.keyboard.press("Enter")
    page.locator("button.hit").wait_for()
    searched = time.monotonic()
    page.select_option("select[aria-label=File]", "rank-0")
    page.wait_for_selector(f"{STATUS}:text-is('the end')")
    with page.expect_download() as saved:
        page.click("button:text-is('Download')")
    assert Path(saved.value.path()).stat().st_size == rank.stat().st_size
    seconds = f"{shown - begun:.1f}, {searched - shown:.1f}, {time.monotonic() - searched:.1f} s"
    heap = page.evaluate("performance.memory.usedJSHeapSize") / 2**20
    grown = peak_mib(at) - before
    print(f"end, search, download {seconds}; server {grown:.0f} MiB more, page {heap:.0f} MiB")
    assert grown < 100
    assert heap < 100


def test_the_page_of_an_array_is_of_all_its_tasks(
    at: Desk, tmp_path: Path, shoot: Callable[[Any, str], None]
) -> None:
    """Task 12 has the array's number, as the last task has; tasks 3 and 4 failed before it."""
    array, page = at.job(6), at.page
    number = array["array_job_id"]["number"]
    listed = at.rest.bodies["jobs"]["body"]["jobs"]
    listed.remove(array)
    now = int(time.time())
    tasks = ((3, 903, "FAILED"), (4, 904, "FAILED"), (12, number, "COMPLETED"))
    for task, job, state in tasks:
        folder = job_of(at, tmp_path, 1, job)
        (folder / "rank-0.log").write_text(f"of task {task}\n")
        listed.append(
            {
                **copy.deepcopy(array),
                **{"job_id": job, "job_state": [state], "user_name": "kim", "name": "sweep"},
                "array_task_id": {**NUMBER, "number": task},
                "start_time": {**NUMBER, "number": now - 100 - task},
                "end_time": {**NUMBER, "number": now - 10},
                "standard_output": f"/shared/task-{task}/batch.log",
            }
        )
    at.rest.touch("jobs")
    page.wait_for_timeout(1500)
    at.open(f"job/{number}")
    page.wait_for_selector("h2:has-text('task 3, job')")
    assert page.title().startswith(f"sweep · array {number}: 2 failed, 1 completed")
    assert page.locator("h1 .counts").inner_text().split() == ["2", "failed", "1", "completed"]
    page.wait_for_selector("h2:text-is('Why it failed')")
    page.wait_for_selector(".log >> text=of task 3")
    shoot(page, "array-page")
    entire = page.locator("a:text-is('Edit and submit again')")
    assert entire.get_attribute("href") == f"#submit?again={number}&entire=true"
    failed = page.locator("a:text-is('Submit 2 failed tasks again')")
    assert failed.get_attribute("href") == f"#submit?again={number}&failed=true"
    assert page.locator("button:text-is('Cancel the array…')").count() == 0, "all have ended"
    page.click("[aria-label='Failed tasks'] button:text-is('4')")
    page.wait_for_selector("h2:has-text('task 4, job')")
    page.wait_for_selector(".log >> text=of task 4")
    assert page.locator(f"dl.facts >> text={number}_4").count() == 1
    assert page.url.endswith(f"#job/{number}?task=904")
    page.select_option("select[aria-label=Task]", str(number))
    page.wait_for_selector(".log >> text=of task 12")
    assert page.locator("h2:text-is('Why it failed')").count() == 0
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    entire.click()
    page.wait_for_selector(f"h2 >> text=Submit array {number} again")
    wait_until(page, "document.querySelector('input[name=array]').value === '3-4,12'")
    at.open(f"submit?again={number}&failed=true")
    page.wait_for_selector(f"h2 >> text=Submit failed tasks of array {number} again")
    wait_until(page, "document.querySelector('input[name=array]').value === '3-4'")


def test_a_narrow_page_without_a_pointer(
    at: Desk, tmp_path: Path, shoot: Callable[[Any, str], None]
) -> None:
    folder, page = job_of(at, tmp_path, 4), at.page
    appended(folder / "rank-2.log", f"{'x' * 3000} end of a long line\n")
    page.set_viewport_size({"width": 390, "height": 800})
    at.open("job/1")
    page.wait_for_selector(f"{STATUS}:text-is('live')")
    page.wait_for_selector(".log >> text=end of a long line")
    search = page.locator("input[aria-label='Search in the output']")
    search.focus()
    page.keyboard.type("hello of")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=4 lines")
    hits = page.locator("button.hit")
    hits.first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".log .at")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    wrap = page.locator("button:text-is('Wrap')")
    wrap.focus()
    page.keyboard.press("Space")
    assert wrap.get_attribute("aria-pressed") == "false"
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    shoot(page, "log-narrow")


def test_a_log_that_is_written_again_and_one_that_cannot_be_read(at: Desk, tmp_path: Path) -> None:
    folder, page = job_of(at, tmp_path, 1), at.page
    at.open("job/1")
    page.wait_for_selector(f"{STATUS}:text-is('live')")
    (folder / "rank-0.log").write_text("2nd\n")
    page.wait_for_selector(".log >> text=rank 0 was written again from its beginning")
    page.wait_for_selector(".log >> text=2nd")
    (folder / "rank-0.log").unlink()
    (folder / "rank-0.log").mkdir()
    page.wait_for_selector(".log >> text=rank 0: not a file: what is written there is not kept")
    # Another file by that name, complete when it is first seen.
    (folder / "new").write_bytes(b"y" * 30_000_000 + b"\nfast\n")
    (folder / "rank-0.log").rmdir()
    (folder / "new").replace(folder / "rank-0.log")
    page.wait_for_selector(".log >> text=fast")
    page.wait_for_selector(".log >> text=of rank 0 came too fast and are left out here")
