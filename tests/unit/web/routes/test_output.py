"""A job's page: its record while Slurm does not answer, its output, which ends with the job."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import subprocess
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from corral.api import Extras, LogPiece, LogQuestion, Recorded
from corral.api.page.job_logs import LogBounds, log_script
from corral.errors import Code, CorralError
from corral.slurm.records import Job
from corral.spec.load import load_or_raise
from corral.web import schemas
from corral.web.login.client import TokenProgram
from corral.web.routes import jobs, output
from corral.web.routes.streams import Streams
from corral.web.slurm.slurmrest import Login
from corral.web.users import user_commands
from corral.web.users.user_commands import ByHelper
from corral.web.users.worker_process import WorkerProcesses, answer
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.shapes import held


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def piece(name: str, start: int, data: bytes) -> str:
    return f"D {name} {start} {base64.b64encode(data).decode()}"


class Printing:
    """What a user's own commands read: two lines, and no end."""

    def __init__(self) -> None:
        self.cancelled = False

    async def log(
        self, login: Login, job: Job, question: LogQuestion, on_line: Callable[[str], None]
    ) -> None:
        on_line(piece("batch", 0, b"one\n"))
        on_line(piece("batch", 4, b"two\n"))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def events(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"OVER_S": 0.02, "STEP_S": 0.01, "LATE_S": 0.03, "LATEST_S": 0.5}.items():
        monkeypatch.setattr(output, name, value)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", ["cancelled", "forgotten"])
def test_a_log_ends_with_its_job(how: str) -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, poll_s=0.01) as page:
            await page.login()
            state = page.app.state.corral
            state.own = printing = Printing()
            await page.get("jobs")
            asked = asyncio.create_task(page.get("jobs/1/log"))
            await asyncio.sleep(0.2)
            assert not asked.done(), "its job is running"
            listed = rest.bodies["jobs"]["body"]["jobs"]
            (mine,) = [job for job in listed if job["job_id"] == 1]
            if how == "cancelled":
                mine["job_state"] = ["CANCELLED"]
            else:
                listed.remove(mine)
            rest.touch("jobs")
            await state.pollers.of("kim").poll()
            reply = await asyncio.wait_for(asked, 20)
            pieces = [p for event in events(reply.text) for p in event.get("pieces", ())]
            assert [(p["start"], p["end"], p["text"]) for p in pieces] == [
                (0, 4, "one\n"),
                (4, 8, "two\n"),
            ]
            assert events(reply.text)[-1] == {}
            assert printing.cancelled

    run(work())


@pytest.mark.usefixtures("quick")
def test_a_log_goes_on_while_slurm_does_not_answer() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, poll_s=0.01) as page:
            await page.login()
            state = page.app.state.corral
            state.own = Printing()
            await page.get("jobs")
            asked = asyncio.create_task(page.get("jobs/1/log"))
            await asyncio.sleep(0.05)
            rest.down = True
            await state.pollers.of("kim").poll()
            await asyncio.sleep(0.2)
            assert not asked.done()
            asked.cancel()

    run(work())


class Broken:
    """What a user's own commands read, with an error that nobody expected."""

    async def log(self, *_: Any) -> None:
        raise ConnectionResetError("the helper is gone")


async def ended_log(page: Page, path: str) -> dict[str, Any]:
    """The fields of a log's last event."""
    reply = await asyncio.wait_for(page.get(path), 5)
    assert "event: end\n" in reply.text
    return events(reply.text)[-1]


@pytest.mark.usefixtures("quick")
def test_a_log_ends_with_an_error_of_ours() -> None:
    """The page waited for ever: no line came, and no end."""

    async def work() -> None:
        async with Page(FakeRest(), poll_s=0.01) as page:
            await page.login()
            page.app.state.corral.own = Broken()
            end = await ended_log(page, "jobs/1/log")
            assert end["error"]["message"] == output.OWN_ERROR

    run(work())


@pytest.mark.usefixtures("quick")
def test_a_job_whose_end_cannot_be_asked_for_has_not_ended(monkeypatch: Any) -> None:
    """The page showed a running job's output as complete."""

    async def ended(self: output.Output) -> bool:
        raise LookupError("no such field")

    async def work() -> None:
        monkeypatch.setattr(output.Output, "_ended", ended)
        async with Page(FakeRest(), poll_s=0.01) as page:
            await page.login()
            page.app.state.corral.own = Printing()
            end = await ended_log(page, "jobs/1/log")
            assert end["error"]["message"] == output.OWN_ERROR

    run(work())


def test_tasks_that_have_not_started_have_no_output() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            (array,) = [j for j in rest.bodies["jobs"]["body"]["jobs"] if j["job_id"] == 6]
            array["standard_output"] = "/shared/task-%a/batch.log"
            await page.login(array["user_name"])
            page.app.state.corral.own = Printing()
            assert (await page.get("jobs/6")).json()["stdout"] == "/shared/task-%a/batch.log"
            reply = await page.get("jobs/6/log")
            assert reply.status_code == 404
            assert "each task of an array has its own output" in reply.text

    run(work())


@pytest.mark.parametrize("known", [True, False])
def test_a_job_is_shown_as_it_was_last_seen_while_slurm_does_not_answer(known: bool) -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, poll_s=0.01) as page:
            await page.login()
            if known:
                await page.get("jobs")
            fresh = (await page.get("jobs/1")).json()
            assert fresh["known_at"] == 0
            rest.down = True
            reply = await page.get("jobs/1")
            if known:
                seen = reply.json()
                assert abs(seen.pop("known_at") - time.time()) < 60
                del fresh["known_at"]
                assert seen == fresh
            else:
                assert reply.status_code == 502
                assert "does not answer" in reply.text

    run(work())


@pytest.mark.parametrize("listed", [True, False])
def test_a_forgotten_jobs_page_does_not_wait_for_slurmctld(
    monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    """Of a job that only accounting has, the page was blank for 20 s while slurmctld was gone."""
    monkeypatch.setattr(jobs, "LAST_KNOWN_S", 0.05)

    async def work() -> None:
        async with Page(FakeRest(), poll_s=0.01) as page:
            await page.login()
            state = page.app.state.corral
            if listed:
                number = (await page.get("past?days=7")).json()["rows"][0][0]
            else:
                number = page.rest.bodies["past-job"]["body"]["jobs"][0]["job_id"]

            async def frozen(*_: object) -> Job | None:
                await asyncio.Event().wait()
                return None

            monkeypatch.setattr(state.rest, "job", frozen)
            if listed:  # what the list knows is shown at once: accounting is asked nothing
                monkeypatch.setattr(state.past, "job", frozen)
            reply = await asyncio.wait_for(page.get(f"jobs/{number}"), 20)
            assert reply.status_code == 200, reply.text
            assert abs(reply.json()["known_at"] - time.time()) < 60
            assert (reply.json()["id"], reply.json()["forgotten"]) == (number, False)
            await page.login("ada")
            monkeypatch.setattr(state.past, "job", frozen)
            monkeypatch.setattr(jobs, "ACCOUNTING_S", 0.05)
            reply = await asyncio.wait_for(page.get(f"jobs/{number}"), 20)
            assert reply.status_code == 504, "another viewer's list is not shown"

    run(work())


def test_the_waits_for_a_job_are_bounded() -> None:
    assert jobs.LAST_KNOWN_S + jobs.ACCOUNTING_S < 5


def test_nobody_waits_long_for_a_job_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LAST_KNOWN_S", 0.05)

    async def work() -> None:
        async with Page(FakeRest(), poll_s=0.01) as page:
            await page.login()
            await page.get("jobs")
            state = page.app.state.corral

            async def frozen(*_: object) -> Job | None:
                await asyncio.Event().wait()
                return None

            monkeypatch.setattr(state.rest, "job", frozen)
            reply = await asyncio.wait_for(page.get("jobs/1"), 20)
            assert reply.json()["known_at"]

    run(work())


def test_what_slurm_refuses_is_not_shown_from_memory() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, poll_s=0.01) as page:
            await page.login()
            await page.get("jobs")
            rest.good.clear()  # Slurm takes the token no more
            assert (await page.get("jobs/1")).status_code == 401

    run(work())


class Files:
    """A user's own commands: the program on the files of a folder of this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[LogQuestion] = []

    async def log(
        self, login: Login, job: Job, question: LogQuestion, on_line: Callable[[str], None]
    ) -> None:
        self.asked.append(question)
        there = replace(job, stdout=str(self.folder / "batch.log"), stderr="")
        argv = ["sh", "-c", str(log_script(there, question))]
        ran = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True)
        for line in ran.stdout.splitlines():
            on_line(line)
        if ran.returncode == 4:
            raise CorralError(Code.NOT_FOUND, ran.stdout)
        assert ran.returncode == 0, ran.stderr


def asked(folder: Path, *paths: str) -> list[Any]:
    """The answers of job 1's page, whose files are in a folder."""

    async def work() -> list[Any]:
        async with Page(FakeRest()) as page:
            await page.login()
            page.app.state.corral.own = Files(folder)
            return [await page.get(f"jobs/1/{path}") for path in paths]

    return run(work())


@pytest.fixture
def ranks(hostile_tmp_path: Path) -> Path:
    folder = hostile_tmp_path / "job"
    folder.mkdir()
    (folder / "batch.log").write_bytes(b"batch\n")
    (folder / "job.json").write_text('{"logs": 2}')
    lines = [f"{n:05d} \u00e4\u00e4\n" for n in range(40_000)]
    (folder / "rank-0.log").write_text("".join(lines))
    return folder


def test_the_files_of_a_job_are_listed(ranks: Path) -> None:
    (reply,) = asked(ranks, "log/files")
    held(schemas.LogFiles, reply.json())
    files = reply.json()["files"]
    assert [(file["name"], file["size"]) for file in files] == [("batch", 6), ("rank-0", 440_000)]
    assert files[1]["path"] == str(ranks / "rank-0.log")


def test_a_part_of_a_log_has_complete_lines(ranks: Path) -> None:
    (reply,) = asked(ranks, "log/part?file=rank-0&start=100&end=999999999")
    held(schemas.LogPart, reply.json())
    part = reply.json()
    assert part["size"] == 440_000
    assert (part["start"], part["text"][:9]) == (110, "00010 \u00e4\u00e4\n")
    assert part["end"] == part["start"] + len(part["text"].encode())
    assert part["end"] <= 100 + output.PART
    assert part["text"].endswith("\n")


def test_a_search_of_a_log_goes_on_where_it_was(ranks: Path) -> None:
    first, second, none = asked(
        ranks,
        "log/search?file=rank-0&text=7%20%C3%A4",
        "log/search?file=rank-0&text=7%20%C3%A4&start=22000&line=2000",
        "log/search?file=rank-0&text=nowhere",
    )
    held(schemas.LogMatches, first.json())
    response = first.json()
    assert len(response["hits"]) == 200
    assert response["hits"][1] == {
        "name": "rank-0",
        "start": 187,
        "line": 17,
        "text": "00017 \u00e4\u00e4",
    }
    assert (response["end"], response["line"]) == (21_978, 1998)
    assert second.json()["hits"][0]["line"] == 2007
    assert (none.json()["hits"], none.json()["end"]) == ([], 440_000)


def test_a_log_is_downloaded_as_it_is(ranks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "BLOCK", 100_000)
    single, every, none = asked(
        ranks, "log/download?file=rank-0", "log/download", "log/download?file=rank-1"
    )
    assert single.content == (ranks / "rank-0.log").read_bytes()
    assert single.headers["content-disposition"] == 'attachment; filename="job-1-rank-0.log"'
    assert single.headers["content-length"] == "440000"
    heads = [line for line in every.content.splitlines() if line.startswith(b"==> ")]
    assert [head.split(b":")[0] for head in heads] == [b"==> batch", b"==> rank-0"]
    assert none.status_code == 404


@pytest.mark.parametrize(
    "path", ["log?file=../job", "log/part?file=/etc/passwd&start=0&end=9",
             "log/download?file=rank-", "log/search?file=rank-0&text=a%0Ab",
             "log/part?file=rank-0&start=-1&end=9"],
)  # fmt: skip
def test_a_file_has_a_name_and_no_path(ranks: Path, path: str) -> None:
    (reply,) = asked(ranks, path)
    assert reply.status_code == 422


def ended(rest: FakeRest, state: str = "FAILED", status: int = 1) -> None:
    """Job 1 has ended."""
    (mine,) = [job for job in rest.bodies["jobs"]["body"]["jobs"] if job["job_id"] == 1]
    mine["job_state"] = [state]
    mine["exit_code"]["return_code"]["number"] = status
    rest.touch("jobs")


class Explaining(WorkerProcesses):
    """The worker's answer, in this process; what it was asked."""

    def __init__(self, error: CorralError | None = None) -> None:
        super().__init__()
        self.error = error
        self.asked: list[dict[str, Any]] = []

    async def _ask(self, question: dict[str, Any], what: str, hint: str) -> dict[str, Any]:
        self.asked.append(question)
        if self.error:
            raise self.error
        return answer(json.loads(json.dumps(question)))


def end_of(folder: Path, workers: WorkerProcesses, state: str = "FAILED") -> list[Any]:
    """What job 1's page is answered about its end, twice."""

    async def work() -> list[Any]:
        rest = FakeRest()
        ended(rest, state)
        async with Page(rest) as page:
            await page.login()
            page.app.state.corral.own = Files(folder)
            page.app.state.corral.workers = workers
            return [await page.get("jobs/1/end") for _ in range(2)]

    replies = run(work())
    for reply in replies:
        held(schemas.JobEnd, reply.json())
    return [reply.json() for reply in replies]


def test_why_a_job_failed_is_read_out_of_its_last_lines_once(ranks: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "/shared/t.py", line 3, in f\n    g()\n'
    steps = "".join(f"step {n}\n" for n in range(40_000))
    (ranks / "rank-0.log").write_text(f"{steps}{trace}ValueError: \x1b[31mlast\x1b[0m\n")
    workers = Explaining()
    first, again = end_of(ranks, workers)
    assert first == again and first["known"]
    (finding,) = first["findings"]
    assert (finding["id"], finding["evidence"]) == ("F106", ["ValueError: last"])
    assert finding["detail"] == "ValueError: last at /shared/t.py line 3"
    (question,) = workers.asked
    assert (question["state"], question["code"]) == ("FAILED", (1, 0))
    assert "batch\n" in question["text"] and len(question["text"]) < 250_000


def test_a_job_without_output_is_explained_by_its_state(tmp_path: Path) -> None:
    end, _ = end_of(tmp_path / "nothing", Explaining(), "OUT_OF_MEMORY")
    assert [finding["name"] for finding in end["findings"]] == ["job-out-of-memory"]
    assert end["no_output"]


def test_a_signal_without_a_status_is_explained() -> None:
    """Slurmrestd reports no status then, and no number in the reason."""
    job = Job(7, user="kim", state="FAILED", reason="RaisedSignal", exit_signal=53)
    (finding,) = run(Explaining().end(job, ""))["findings"]
    assert finding["name"] == "signal-53"
    assert finding["evidence"] == ["JobState=FAILED Reason=RaisedSignal ExitCode=0:53"]


def test_a_log_that_takes_too_long_leaves_the_rest_of_the_page(ranks: Path) -> None:
    late = CorralError(Code.TIMED_OUT, "this log takes longer than 10 s to check")
    end, _ = end_of(ranks, Explaining(late))
    assert (end["known"], end["why"], end["findings"]) == (False, late.message, [])


def test_a_process_of_its_own_explains_a_log() -> None:
    async def work() -> dict[str, Any]:
        job = Job(7, user="kim", state="TIMEOUT", reason="TimeLimit", exit_status=0)
        return await WorkerProcesses(limit_s=120).end(job, "epoch 1\n")

    (finding,) = run(work())["findings"]
    assert finding["name"] == "time-limit"


def test_a_job_that_runs_has_no_end(ranks: Path) -> None:
    (reply,) = asked(ranks, "end")
    assert reply.status_code == 409


@pytest.mark.parametrize(
    ("role", "seen", "names"),
    [
        ("Operator", "record", ["job-out-of-memory"]),
        ("Administrator", "record", ["job-out-of-memory"]),
        ("None", "state", []),
    ],
)
def test_why_anothers_job_failed_is_shown_without_its_output(
    ranks: Path, role: str, seen: str, names: list[str]
) -> None:
    """Operators had nothing of it but a refusal; Slurm's record is theirs to see anyway."""
    workers = Explaining()

    async def work() -> dict[str, Any]:
        rest = FakeRest()
        ended(rest, "OUT_OF_MEMORY")
        async with Page(rest) as page:
            await page.login("lee", role)
            page.app.state.corral.own = own = Files(ranks)
            page.app.state.corral.workers = workers
            reply = (await page.get("jobs/1/end")).raise_for_status().json()
            assert own.asked == [], "nothing is read as anybody"
            return reply

    end = run(work())
    held(schemas.JobEnd, end)
    assert (end["seen"], end["known"]) == (seen, True)
    assert [finding["name"] for finding in end["findings"]] == names
    assert end["lines"] == []
    assert [question["text"] for question in workers.asked] == ([""] if names else [])
    if seen == "state":
        assert (end["memory"], end["no_output"], end["about"]) == (None, "", "")
    else:
        assert end["no_output"] == "kim alone reads it"


def test_logs_are_their_owners_alone() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login("lee", "Administrator")
            page.app.state.corral.own = Files(Path("/nonexistent"))
            for path in (
                "log",
                "log/files",
                "log/part?file=batch&start=0&end=9",
                "log/search?file=batch&text=a",
                "log/download",
            ):
                reply = await page.get(f"jobs/1/{path}")
                assert reply.status_code == 403, path
            assert page.app.state.corral.own.asked == []

    run(work())


@pytest.mark.parametrize(
    ("data", "begins", "ends", "kept"),
    [
        (b"ab\ncd\nef", False, False, b"cd\n"),
        (b"ab\ncd\nef", True, False, b"ab\ncd\n"),
        (b"ab\ncd\nef", False, True, b"cd\nef"),
        (b"5%\r6%\r7", False, True, b"6%\r7"),
        (b"\xa4ab\xc3", False, False, b"ab"),
        (b"ab\xc3\xa4", True, False, b"ab\xc3\xa4"),
        (b"ab\xff\xff", True, False, b"ab\xff\xff"),
        (b"", False, False, b""),
    ],
)
def test_a_range_is_cut_at_lines_else_at_characters(
    data: bytes, begins: bool, ends: bool, kept: bytes
) -> None:
    first, last = output.complete_lines(data, begins=begins, ends=ends)
    assert data[first:last] == kept


def test_a_character_that_is_cut_between_two_pieces() -> None:
    text = output.Text()
    assert text.of(LogPiece("batch", 0, b"a\xc3")) == "a"
    assert text.of(LogPiece("batch", 2, b"\xa4b")) == "\u00e4b"
    assert text.of(LogPiece("batch", 9, b"\xa4b")) == "\ufffdb"


class PrintedLines:
    """What a user's own commands print: these lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    async def log(
        self, login: Login, job: Job, question: LogQuestion, on_line: Callable[[str], None]
    ) -> None:
        for line in self.lines:
            on_line(line)
        if question.do == "follow":
            await asyncio.Event().wait()


def test_lines_that_the_jobs_user_wrote_are_checked() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            state = page.app.state.corral
            state.own = PrintedLines("R x", "D batch", "E")
            for path in (
                "log/files",
                "log/part?file=batch&start=0&end=9",
                "log/download",
                "log/search?file=batch&text=a",
            ):
                reply = await page.get(f"jobs/1/{path}")
                assert reply.status_code == 502, (path, reply.text)
                assert reply.json()["error"]["code"] == "parse-failed"
            reply = await asyncio.wait_for(page.get("jobs/1/log"), 20)
            assert events(reply.text)[-1]["error"]["code"] == "parse-failed"
            state.own = PrintedLines(
                "S batch 9", piece("batch", 3, b"abc"), piece("batch", 0, b"abcdef")
            )
            part = (await page.get("jobs/1/log/part?file=batch&start=0&end=4")).json()
            assert (part["text"], part["end"], part["size"]) == ("abcd", 4, 9)

    run(work())


def test_a_file_that_claims_to_be_long_ends_where_nothing_comes() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            state = page.app.state.corral
            state.own = own = Counting()
            reply = await asyncio.wait_for(page.get("jobs/1/log/download"), 20)
            assert (reply.content, own.reads) == (b"", 1)

    run(work())


class Counting(PrintedLines):
    """Lists a file of 10 PB that has nothing in it."""

    reads = 0

    async def log(
        self, login: Login, job: Job, question: LogQuestion, on_line: Callable[[str], None]
    ) -> None:
        if question.do == "files":
            on_line("F batch 9999999999999999 1 YQ==")
        else:
            self.reads += 1
            await asyncio.sleep(0)


class Slow:
    """Answers once it may; how many are asked at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.gate = asyncio.Event()

    async def log(self, *_: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.gate.wait()
        self.now -= 1

    async def extras(self, *_: Any) -> Any:
        await self.log()
        return Extras()

    async def script(self, *_: Any) -> str:
        await self.log()
        return ""

    async def recorded(self, *_: Any) -> Any:
        await self.log()
        return Recorded()


async def refused(asked: list[asyncio.Task[Any]], count: int, busy: Callable[[], bool]) -> set[Any]:
    """Those of the questions that ended, once so many did and the others are being answered."""
    async with asyncio.timeout(60):
        while not (busy() and sum(map(asyncio.Task.done, asked)) == count):  # noqa: ASYNC110  # tasks of a server
            await asyncio.sleep(0)
    done = {task for task in asked if task.done()}
    assert [(await task).status_code for task in done] == [429] * count
    return done


@pytest.mark.parametrize(
    "path",
    ["log/files", "log/part?file=batch&start=0&end=9", "log/download", "extras", "again", "script"],
)
def test_a_users_questions_wait_for_each_other_and_not_without_end(path: str) -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            state = page.app.state.corral
            state.own = slow = Slow()
            asked = [asyncio.create_task(page.get(f"jobs/1/{path}")) for _ in range(36)]
            done = await refused(asked, 4, lambda: slow.now == 4)
            slow.gate.set()
            codes = {(await task).status_code for task in asked if task not in done}
            assert codes == {404 if path == "log/download" else 200}
            assert slow.most == 4
            assert not state.questions._places

    run(work())


def test_what_the_helper_answers_is_taken_up_to_a_length(tmp_path: Path) -> None:
    async def work(*lines: bytes) -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            with suppress(ConnectionError):
                for line in lines:
                    writer.write(line)
                    await writer.drain()
            writer.close()

        path = str(tmp_path / "helper")
        server = await asyncio.start_unix_server(answer, path)
        taken: list[str] = []
        async with server:
            own = ByHelper(path)
            with pytest.raises(CorralError) as failed:
                await own.log(Login("kim", "t"), Job(id=1), LogQuestion(do="files"), taken.append)
        assert failed.value.code is Code.PARSE_FAILED
        assert len(taken) < 10_000
        return failed.value.message

    assert "longer than what was asked for" in run(work(*[b'{"line": "h"}\n'] * 20_000))
    assert "longer than 4 MiB" in run(work(b"x" * (5 << 20)))
    assert "not JSON" in run(work(b"x\n"))
    assert "not an object" in run(work(b"[]\n"))


class Endless(PrintedLines):
    """A file of 1 GB whose blocks are asked for, and come once they may."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.blocks: list[int] = []

    async def log(
        self, login: Login, job: Job, question: LogQuestion, on_line: Callable[[str], None]
    ) -> None:
        if question.do == "files":
            on_line(f"F batch {1 << 30} 1 YQ==")
            return
        self.blocks.append(question.end - question.start)
        await self.gate.wait()


def test_downloads_of_a_user_take_little_of_the_services_memory() -> None:
    """48 at once with 8 MiB each were 384 MiB for one user, of the service's 1 GB."""

    async def work() -> tuple[list[int], list[int]]:
        async with Page(FakeRest()) as page:
            await page.login()
            page.app.state.corral.own = own = Endless()
            path = "jobs/1/log/download"
            loading = [asyncio.create_task(page.get(path)) for _ in range(2)]
            while len(own.blocks) < 2:  # noqa: ASYNC110  # requests begin on their own
                await asyncio.sleep(0.01)
            more = [(await page.get(path)).status_code for _ in range(3)]
            # Live views are counted apart: a download closes no page.
            assert not page.app.state.corral.streams._open
            own.gate.set()
            await asyncio.gather(*loading)
            return more, own.blocks

    more, blocks = run(asyncio.wait_for(work(), 30))
    assert more == [429] * 3
    assert 2 * max(blocks) <= 8 << 20


def test_downloads_of_all_users_have_a_limit() -> None:
    streams = Streams(2, "downloads", of_all=3)
    with ExitStack() as stack:
        for user in ("kim", "kim", "ada"):
            stack.enter_context(streams.counted(user))
        with pytest.raises(CorralError, match="all users together have 3 downloads"):
            stack.enter_context(streams.counted("eve"))
    with streams.counted("eve"):
        pass


def test_more_than_was_asked_for_is_not_taken() -> None:
    """The job's user may print what they like: 24 MB were taken for each block of a download."""
    bounds = LogBounds(LogQuestion(do="read", name="batch", start=0, end=90_000))
    line = piece("batch", 0, b"x" * 45_000)
    with pytest.raises(CorralError, match="longer than what was asked for"):
        for _ in range(20):
            bounds.take(line)
    complete = LogBounds(LogQuestion(do="read", name="batch", start=5, end=5 + output.BLOCK))
    for at in range(0, output.BLOCK, 45_000):
        complete.take(piece("batch", at, b"x" * 45_000))


def test_a_viewer_who_does_not_read_keeps_few_characters() -> None:
    """64 pieces of 60,000 characters, in each of 48 logs: 184 MB for one user."""

    async def work() -> tuple[int, int]:
        own: Any = None
        viewer = output.Output(own, cast("Any", None), cast("Any", None), Job(id=1), "all")
        for at in range(63):
            viewer._take(piece("batch", at * 45_000, b"x" * 45_000))
        waiting = sum(len(line or "") for line in viewer._queue._queue)  # type: ignore[attr-defined]
        await viewer._queue.put(None)
        async for _ in viewer.batches():
            pass
        return waiting, viewer._waiting

    waiting, left = run(work())
    assert waiting <= output.WAITING_CHARACTERS
    assert left == 0


@pytest.mark.parametrize(
    ("path", "at_once", "too_many"), [("profile", 4, 4), ("profile.json.gz", 2, 34)]
)
def test_profiles_wait_for_each_other_too(
    monkeypatch: pytest.MonkeyPatch, path: str, at_once: int, too_many: int
) -> None:
    """Each reads all recordings of a job on its nodes, and merges their traces in memory."""
    now = most = 0
    gate = asyncio.Event()

    class Nothing:
        def as_dict(self) -> dict[str, Any]:
            return {"ranks": [], "slowest": None, "recordings": []}

        def timeline(self) -> bytes:
            return b""

    async def job_profile(*_: Any) -> Any:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await gate.wait()
        now -= 1
        return Nothing()

    monkeypatch.setattr(jobs.api, "job_profile", job_profile, raising=False)
    declared = load_or_raise(Path(__file__).parents[4] / "examples" / "laptop.yaml")

    async def work() -> int:
        async with Page(FakeRest(), spec=declared.model_dump(mode="json")) as page:
            await page.login()
            asked = [asyncio.create_task(page.get(f"jobs/1/{path}")) for _ in range(36)]
            done = await refused(asked, too_many, lambda: now == at_once)
            gate.set()
            assert [(await task).status_code for task in asked].count(429) == len(done)
            return most

    assert run(work()) == at_once


def test_a_helper_that_dies_is_out_of_reach(tmp_path: Path) -> None:
    """A socket that is closed with unread bytes is reset."""

    def dies(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connection.recv(1)
        connection.close()

    async def work() -> None:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(tmp_path / "helper"))
            listening.listen()
            dying = asyncio.create_task(asyncio.to_thread(dies, listening))
            own = ByHelper(str(tmp_path / "helper"))
            with pytest.raises(CorralError) as failed:
                await own.log(Login("kim", "t"), Job(id=1), LogQuestion(do="files"), print)
            await dying
        assert failed.value.code is Code.UNREACHABLE

    run(work())


Asking = Callable[[str], Coroutine[Any, Any, Any]]
ONE_ANSWER: dict[str, Asking] = {
    "script": lambda path: ByHelper(path).script(Login("kim", "t"), 1),
    "templates": lambda path: ByHelper(path).templates(Login("kim", "t"), ()),
    "login": lambda path: TokenProgram(path).provider(),
}


@pytest.mark.parametrize("what", ONE_ANSWER)
def test_a_silent_helper_is_not_waited_for_without_end(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_commands, "ANSWER_S", 0.05)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def work() -> None:
        path = str(tmp_path / "helper")
        async with await asyncio.start_unix_server(silent, path):
            with pytest.raises(CorralError) as failed:
                await asyncio.wait_for(ONE_ANSWER[what](path), 5)
        assert failed.value.code is Code.TIMED_OUT
        assert "journalctl -u 'corral-web-" in failed.value.hint

    run(work())
