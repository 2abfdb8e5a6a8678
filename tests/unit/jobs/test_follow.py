"""Following: the watching script runs for real over a folder that fills, against a fake Slurm."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.local import Local
from corral.hosts.quote import Script, sh
from corral.hosts.transport import OnLine, Result
from corral.inspect.question import Question, inquiry, text
from corral.jobs import control
from corral.jobs.follow import Live, Outcome, RankLine, as_user
from corral.slurm.records import Job
from corral.slurm.states.jobs import JobState
from tests.unit.jobs.conftest import FakeSlurm


class Watch:
    """Follows a job in a task, so that a test can move the job on while lines come."""

    def __init__(self, slurm: FakeSlurm, fleet: Fleet | None = None) -> None:
        self.slurm, self.fleet = slurm, fleet or slurm.fleet
        self.job = slurm.job()
        self.folder = Path(self.job.folder)
        self.lines: list[RankLine] = []
        self.events: list[Event] = []
        self.bars: list[Live] = []
        self.news = asyncio.Event()

    def _line(self, line: RankLine) -> None:
        self.lines.append(line)
        self.news.set()

    def _event(self, event: Event) -> None:
        self.events.append(event)
        self.news.set()

    def _live(self, live: Live) -> None:
        self.bars.append(live)
        self.news.set()

    def begin(self) -> asyncio.Task[Outcome]:
        return asyncio.create_task(
            control.follow(
                self.fleet, self.job, on_line=self._line, emit=self._event, on_live=self._live
            )
        )

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not true():
                self.news.clear()
                await self.news.wait()

    def append(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as log:
            log.write(text)

    def end(self, state: str, exit_code: str, reason: str = "None") -> None:
        self.slurm.ends(state, exit_code, reason)
        (self.folder / "ended").write_text("0\n")

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]


@pytest.fixture(autouse=True)
def hurry(slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Naps of 5 ms: the script counts its time by them, not by a clock."""
    wait = asyncio.sleep

    async def soon(seconds: float) -> None:
        await wait(seconds / 50)

    real = shutil.which("sleep", path=os.defpath)
    nap = tmp_path / "bin" / "sleep"
    nap.write_text(f"#!/bin/sh\ncase $1 in 0) ;; *) exec {real} 0.005 ;; esac\n")
    nap.chmod(0o755)
    monkeypatch.setattr("corral.jobs.control.asyncio.sleep", soon)


@pytest.fixture(params=["mawk", "gawk", "awk"])
def any_awk(request: pytest.FixtureRequest, slurm: FakeSlurm, tmp_path: Path) -> str:
    """Each awk of this machine in turn: Debian's nodes have mawk, others gawk."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    (tmp_path / "bin" / "awk").symlink_to(program)
    return request.param


def test_a_complete_life(slurm: FakeSlurm, any_awk: str) -> None:
    async def live() -> None:
        slurm.queue("PENDING", reason="Resources")
        watch = Watch(slurm)
        task = watch.begin()
        await watch.until(lambda: bool(watch.events))
        slurm.queue("RUNNING", nodes="node[0-1]")
        watch.append("rank-0.log", "héllo  ' $(x) |\tworld\r\npart")
        await watch.until(lambda: bool(watch.lines))
        watch.append("rank-1.log", "==> rank-0.log <==\n")
        await watch.until(lambda: len(watch.lines) > 1)
        watch.append("rank-0.log", "ial\nlast without newline")
        watch.end("COMPLETED", "0:0")
        outcome = await task
        assert outcome == Outcome(
            42, JobState.COMPLETED, outcome.exit_code, nodes="node[0-1]", seconds=5
        )
        assert outcome.good
        assert watch.texts == [
            "héllo  ' $(x) |\tworld\r",
            "==> rank-0.log <==",
            "partial",
            "last without newline",
        ]
        assert [line.rank for line in watch.lines] == [0, 1, 0, 0]
        messages = [event.message for event in watch.events if event.kind is Kind.JOB]
        assert messages[0].startswith("waits: it is next")
        assert messages[1:] == ["running on node[0-1]", "completed on node[0-1]"]
        assert slurm.rejected() == ""

    asyncio.run(live())


def test_the_expected_start_is_reported_when_slurm_knows_it(slurm: FakeSlurm) -> None:
    """And again only when it moved by more than ten minutes."""
    events: list[Event] = []
    report = control._state_events(slurm.job(), events.append)
    waiting = Job(42, "42", "train", "corral", JobState.PENDING, reason="Resources", node_count=2)
    for start in (None, 1795230000, 1795230060, 1795233600):
        report(replace(waiting, start_at=start))
    messages = [event.message for event in events]
    assert ["expected to start" in text for text in messages] == [False, True, True]
    report(replace(waiting, state=JobState.RUNNING, start_at=1795233600))
    assert events[-1].message == "running"


def test_a_progress_bar_is_seen_while_it_goes_on(slurm: FakeSlurm, any_awk: str) -> None:
    """A bar has no line feed for hours; at its end, its line is complete from the last piece on."""

    async def live() -> None:
        slurm.queue("RUNNING", nodes="node[0-1]")
        watch = Watch(slurm)
        task = watch.begin()
        watch.append("rank-1.log", "begins\n\r 10%|# |\r 20%|##")
        await watch.until(lambda: bool(watch.bars))
        assert (watch.bars[-1].rank, watch.bars[-1].text) == (1, " 20%|##")
        watch.append("rank-1.log", " |\r 30%|## |\r")
        await watch.until(lambda: watch.bars[-1].text == " 30%|## |")
        watch.append("rank-1.log", "100%|###|\nafter\n")
        watch.end("COMPLETED", "0:0")
        assert (await task).good
        assert watch.texts == ["begins", "100%|###|", "after"]

    asyncio.run(live())


def test_who_failed_before_a_restart_is_past(slurm: FakeSlurm, any_awk: str) -> None:
    async def live() -> None:
        slurm.queue("RUNNING", nodes="node[0-1]")
        watch = Watch(slurm)
        task = watch.begin()
        watch.append("rank-1.log", "leaves\n")
        watch.append("batch.log", "srun: error: node1: task 1: Exited with exit code 75\n")
        await watch.until(lambda: any("exit code 75" in text for text in watch.texts))
        slurm.queue("PENDING", reason="BeginTime")
        await watch.until(lambda: any("start time" in e.message for e in watch.events))
        slurm.queue("RUNNING", nodes="node[0-1]")
        await watch.until(lambda: watch.events[-1].message.startswith("running"))
        watch.append("rank-0.log", "goes on\n")
        await watch.until(lambda: "goes on" in watch.texts)
        assert not watch.lines[-1].echo
        watch.append("rank-0.log", "boom\n")
        watch.append("batch.log", "srun: error: node0: task 0: Exited with exit code 3\n")
        watch.end("FAILED", "3:0", "NonZeroExitCode")
        outcome = await task
        assert outcome.failed is not None
        assert (outcome.failed.rank, outcome.failed.tail.splitlines()[-1]) == (0, "boom")

    asyncio.run(live())


def test_the_first_failures_lines_come_first(slurm: FakeSlurm, any_awk: str) -> None:
    async def live() -> None:
        slurm.queue("RUNNING", nodes="node[0-1]")
        watch = Watch(slurm)
        watch.append("rank-0.log", "Connection closed by peer\n")
        watch.append("rank-1.log", "Traceback\nValueError: the real one\n")
        watch.append(
            "batch.log",
            "srun: error: node1: task 1: Exited with exit code 3\n"
            "srun: error: node0: task 0: Terminated\n",
        )
        watch.end("FAILED", "3:0", "NonZeroExitCode")
        outcome = await watch.begin()
        assert watch.texts[:3] == [
            "Traceback",
            "ValueError: the real one",
            "Connection closed by peer",
        ]
        assert [line.echo for line in watch.lines[:3]] == [False, False, True]
        assert outcome.failed is not None
        assert (outcome.failed.rank, outcome.failed.node) == (1, "node1")
        assert outcome.failed.how == "Exited with exit code 3"
        assert outcome.failed.tail.endswith("ValueError: the real one")
        assert (outcome.good, outcome.reason) == (False, "NonZeroExitCode")
        assert outcome.exit_code is not None
        assert outcome.exit_code.status == 3

    asyncio.run(live())


def test_several_ranks_at_once_and_nobody_to_blame_for_a_cancel(slurm: FakeSlurm) -> None:
    async def live(state: str) -> Outcome:
        watch = Watch(slurm)
        watch.append("batch.log", "srun: error: node[3,5]: tasks 4-7: Killed\n")
        watch.end(state, "0:9")
        return await watch.begin()

    killed = asyncio.run(live("FAILED"))
    assert killed.failed is not None
    assert (killed.failed.rank, killed.failed.node, killed.failed.how) == (4, "node3", "Killed")
    for state in ("CANCELLED", "DEADLINE"):
        assert asyncio.run(live(state)).failed is None


class Breaking(Local):
    """A connection that breaks once, after so many lines."""

    def __init__(self, after: int) -> None:
        super().__init__("node0")
        self.after, self.runs = after, 0

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        self.runs += 1
        seen = 0

        def some(line: str) -> None:
            nonlocal seen
            seen += 1
            if self.runs == 1 and seen > self.after:
                raise CorralError(Code.UNREACHABLE, "the connection broke", node="node0")
            if on_line:
                on_line(line)

        return await super().run(script, stdin=stdin, timeout=timeout, on_line=some)


def test_a_broken_connection_goes_on_where_it_was(slurm: FakeSlurm) -> None:
    async def live() -> None:
        slurm.queue("RUNNING")
        wire = Breaking(after=4)
        watch = Watch(slurm, Fleet({"node0": wire}))
        watch.append("rank-0.log", "one\ntwo\n")
        task = watch.begin()
        await watch.until(lambda: len(watch.lines) == 2)
        watch.append("rank-0.log", "three\n")
        await watch.until(lambda: any(e.kind is Kind.NOTE for e in watch.events))
        watch.append("rank-0.log", "four\n")
        watch.end("COMPLETED", "0:0")
        await task
        assert wire.runs == 2
        assert watch.texts == ["one", "two", "three", "four"]

    asyncio.run(live())


def test_slurmctld_that_is_down_is_reported_once_and_waited_for(slurm: FakeSlurm) -> None:
    async def live() -> None:
        slurm.put("down", "slurm_load_jobs error: Unable to contact slurm controller\n")
        watch = Watch(slurm)
        task = watch.begin()
        await watch.until(lambda: bool(watch.events))
        assert "Unable to contact" in watch.events[0].message
        async with asyncio.timeout(20):
            while slurm.asked() < 2:  # noqa: ASYNC110  # a file of another process
                await asyncio.sleep(0.05)
        watch.end("COMPLETED", "0:0")
        (slurm.folder / "down").unlink()
        assert (await task).good
        assert len([e for e in watch.events if e.kind is Kind.NOTE]) == 1

    asyncio.run(live())


def test_a_job_slurm_forgot_is_known_by_accounting(slurm: FakeSlurm) -> None:
    job = slurm.job()
    slurm.put(
        "sacct",
        "42,42,TIMEOUT,0:0,0:0,main,corral,corral,2,2,cpu=2,cpu=2,60,1,2,3,node0,train\n",
    )
    outcome = asyncio.run(control.state(slurm.fleet, job))
    assert (outcome.state, outcome.seconds, outcome.nodes) == (JobState.TIMEOUT, 60, "node0")


def test_a_job_nobody_knows(slurm: FakeSlurm) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(control.state(slurm.fleet, slurm.job()))
    assert caught.value.code is Code.NOT_FOUND


def test_logs_are_what_there_is_now_and_their_end_only(slurm: FakeSlurm, any_awk: str) -> None:
    slurm.queue("RUNNING")
    job = slurm.job()
    log = Path(job.folder) / "rank-0.log"
    log.write_text("".join(f"line {n}\n" for n in range(1000)) + "open")
    lines, outcome = asyncio.run(control.logs(slurm.fleet, job, limit=25))
    assert [line.text for line in lines] == ["line 998", "line 999", "open"]
    assert outcome.state is JobState.RUNNING
    every, _ = asyncio.run(control.logs(slurm.fleet, job))
    assert len(every) == 1001


def test_cancel_asks_first(slurm: FakeSlurm) -> None:
    """Slurm 24.11's scancel succeeds for a job that does not exist."""
    job = slurm.job()
    with pytest.raises(CorralError) as caught:
        asyncio.run(control.cancel(slurm.fleet, job))
    assert caught.value.code is Code.NOT_FOUND
    slurm.ends("COMPLETED", "0:0")
    assert asyncio.run(control.cancel(slurm.fleet, job)).state is JobState.COMPLETED
    assert not (slurm.folder / "cancelled").exists()
    (slurm.folder / "scontrol.job").unlink()
    slurm.queue("RUNNING")
    asyncio.run(control.cancel(slurm.fleet, job))
    assert (slurm.folder / "cancelled").read_text() == "42\n"


def test_wait_gives_up_and_leaves_the_job(slurm: FakeSlurm) -> None:
    slurm.queue("RUNNING")
    with pytest.raises(CorralError) as caught:
        asyncio.run(control.wait(slurm.fleet, slurm.job(), timeout=0.2))
    assert caught.value.code is Code.TIMED_OUT
    slurm.ends("COMPLETED", "0:0")
    assert asyncio.run(control.wait(slurm.fleet, slurm.job())).good


def test_list(slurm: FakeSlurm) -> None:
    slurm.queue("RUNNING")
    slurm.put(
        "sacct",
        "41,41,FAILED,2:0,0:0,main,corral,corral,1,1,cpu=1,cpu=1,60,1,2,3,node0,old\n"
        "42,42,RUNNING,0:0,0:0,main,corral,corral,2,2,cpu=2,cpu=2,60,1,2,Unknown,node0,train\n",
    )
    (job,) = asyncio.run(control.list_jobs(slurm.fleet, "node0"))
    assert (job.id, job.state) == (42, JobState.RUNNING)
    both = asyncio.run(control.list_jobs(slurm.fleet, "node0", all=True))
    assert [(job.id, job.state) for job in both] == [
        (42, JobState.RUNNING),
        (41, JobState.FAILED),
    ]
    assert slurm.rejected() == ""


def test_list_takes_the_end_from_accounting(slurm: FakeSlurm) -> None:
    """Squeue shows an ended job for some minutes more, without its exit code."""
    history = "42,42,FAILED,2:0,0:0,main,corral,corral,2,2,cpu=2,cpu=2,60,1,2,3,node0,train\n"
    slurm.put("sacct", history)
    slurm.queue("FAILED")
    (job,) = asyncio.run(control.list_jobs(slurm.fleet, "node0", all=True))
    assert job.exit_code is not None
    assert job.exit_code.status == 2
    slurm.queue("RUNNING")  # it was requeued
    (job,) = asyncio.run(control.list_jobs(slurm.fleet, "node0", all=True))
    assert job.state == JobState.RUNNING


def test_what_follows_a_command_as_a_user_still_runs() -> None:
    """It replaced the shell, and the answers of an inquiry were taken for empty ones."""
    user = pwd.getpwuid(os.getuid()).pw_name
    questions = [Question(f"q{n}", sh("echo {n}; exit 3", n=n), text) for n in range(3)]
    asked = inquiry(q.run_by(partial(as_user, user)) for q in questions)
    ran = subprocess.run(["sh"], input=str(asked.script), capture_output=True, text=True)
    answers = asked.answers(ran.stdout, "here", "asking as a user")
    assert answers == {"q0": "0", "q1": "1", "q2": "2"}
    assert [section.status for section in asked.read(ran.stdout).values()] == [3, 3, 3]
