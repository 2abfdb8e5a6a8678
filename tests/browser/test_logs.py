"""The output of a job: its files, as they grow, parts of a long one, search; what is selected."""

from __future__ import annotations

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


def test_the_tasks_of_an_array_are_a_choice(at: Desk, tmp_path: Path) -> None:
    array, page = at.job(6), at.page
    array["user_name"] = "kim"
    array["standard_output"] = "/shared/task-%a/batch.log"
    for task in (3, 12):
        folder = job_of(at, tmp_path, 1, 900 + task)
        (folder / "rank-0.log").write_text(f"of task {task}\n")
        at.rest.bodies["jobs"]["body"]["jobs"].append(
            {
                **array,
                "job_id": 900 + task,
                "job_state": ["FAILED"],
                "array_task_id": {**NUMBER, "number": task},
                "standard_output": f"/shared/task-{task}/batch.log",
            }
        )
    at.rest.touch("jobs")
    page.wait_for_timeout(1500)
    at.open("job/6")
    tasks = page.locator("select[aria-label=Task]")
    tasks.wait_for()
    page.wait_for_selector(f"{STATUS}:text-is('choose a task')")
    tasks.select_option("912")
    page.wait_for_selector(".log >> text=of task 12")
    tasks.select_option("903")
    page.wait_for_selector(".log >> text=of task 3")
    assert "of task 12" not in text_of(page)
    assert page.url.endswith("#job/6?task=903")


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
    (folder / "rank-0.log").rmdir()
    (folder / "rank-0.log").write_bytes(b"y" * 30_000_000 + b"\nfast\n")
    page.wait_for_selector(".log >> text=fast")
    page.wait_for_selector(".log >> text=of rank 0 came too fast and are left out here")
