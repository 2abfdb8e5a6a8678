"""Futures of jobs: what the standard library expects of them, and how a job's end reaches them."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, as_completed, wait
from pathlib import Path
from typing import Any

import pytest

from corral.api.cluster import Cluster
from corral.api.workload import function, queue
from corral.api.workload.function import JobFuture, Watcher, explained, finish
from corral.api.workload.handle import Job
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.jobs.follow import Outcome
from corral.jobs.function.answer import Answer
from corral.jobs.handle import JobHandle
from corral.slurm.states.jobs import JobState
from corral.spec.client import Profile, client_spec
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec

FLEET = Fleet({})
FIVE = b"\x80\x04K\x05."


@pytest.fixture
def spec() -> ClusterSpec:
    return load_or_raise(Path(__file__).parents[4] / "examples" / "laptop.yaml")


@pytest.fixture
def future(spec: ClusterSpec) -> JobFuture[int]:
    return JobFuture(Job(spec, JobHandle(12, "job", "corral", "/shared/job", 1, "node0")))


def cancelled_as(
    monkeypatch: pytest.MonkeyPatch, ended: JobState | CorralError, during: Callable[[], None]
) -> list[str]:
    asked: list[str] = []

    async def cancel(_: ClusterSpec, ids: tuple[str]) -> dict[str, Outcome | CorralError]:
        asked.extend(ids)
        during()
        return {ids[0]: ended if isinstance(ended, CorralError) else Outcome(12, ended)}

    monkeypatch.setattr(queue, "cancel", cancel)
    return asked


def nothing() -> None:
    """Nothing happens meanwhile."""


def test_a_future_goes_through_its_states(future: JobFuture[int]) -> None:
    assert repr(future) == "<corral.JobFuture 12 pending>"
    future.started = True
    assert future.running()
    future.started = False  # Slurm has started it again
    assert not future.running()
    future.started = True
    finish(future, 5, None)
    assert not future.running()
    assert (future.result(), repr(future)) == (5, "<corral.JobFuture 12 done>")


def test_none_is_a_result(future: JobFuture[Any]) -> None:
    finish(future, None, None)
    assert future.result(0) is None


def test_a_running_job_is_cancelled_and_wakes_who_waits(
    future: JobFuture[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = cancelled_as(monkeypatch, JobState.CANCELLED, nothing)
    done: list[bool] = []
    future.add_done_callback(lambda each: done.append(each.cancel()))
    future.started = True
    waiting = threading.Thread(target=lambda: done.append(bool([*as_completed([future])])))
    waiting.start()
    assert future.cancel()
    waiting.join(10)
    assert (asked, done) == (["12"], [True, True])
    assert wait([future], 0).done == {future}
    with pytest.raises(CancelledError):
        future.result()
    finish(future, 5, None)  # a poll that had begun before
    assert future.cancelled()


def test_a_job_that_ended_before_keeps_its_result(
    future: JobFuture[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled_as(monkeypatch, JobState.COMPLETED, nothing)
    assert not future.cancel()
    cancelled_as(monkeypatch, JobState.CANCELLED, lambda: finish(future, 5, None))
    assert not future.cancel()
    assert future.result() == 5
    cancelled_as(monkeypatch, CorralError(Code.USAGE, "asked again"), nothing)
    assert not future.cancel()


def test_a_refusal_leaves_it_as_it_was(
    future: JobFuture[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled_as(monkeypatch, CorralError(Code.SLURM_REFUSED, "no"), nothing)
    with pytest.raises(CorralError, match="no"):
        future.cancel()
    assert not future.done()


class Slurm:
    """What a poll is answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states: dict[str, JobState] = {}
        self.later = Outcome(12, JobState.COMPLETED)
        self.answers: dict[str, Answer] = {}
        self.lines: list[str] = []
        self.error: Exception | None = None

        async def job_states(*_: object) -> dict[str, JobState]:
            return self.states

        async def read_answer(_: Fleet, handle: JobHandle, name: str) -> Answer | None:
            if self.error:
                raise self.error
            return self.answers.get(name)

        async def state(*_: object) -> Outcome:
            return self.later

        async def logs(*_: object, limit: int) -> tuple[tuple[queue.RankLine, ...], Outcome]:
            return tuple(queue.RankLine(0, line) for line in self.lines), self.later

        monkeypatch.setattr(function, "job_states", job_states)
        monkeypatch.setattr(function, "read_answer", read_answer)
        monkeypatch.setattr(function.control, "state", state)
        monkeypatch.setattr(function.control, "logs", logs)

    def poll(self, future: JobFuture[Any]) -> None:
        asyncio.run(function._poll(FLEET, "node0", {future.id: future}))


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    return Slurm(monkeypatch)


def test_a_poll_takes_states_and_results(slurm: Slurm, future: JobFuture[int]) -> None:
    slurm.states = {"12": JobState.PENDING}
    slurm.poll(future)
    assert not future.running()
    slurm.states = {"12": JobState.RUNNING}
    slurm.poll(future)
    assert future.running()
    slurm.states = {"12": JobState.COMPLETED}
    slurm.answers = {"returned": Answer({"kind": "result"}, FIVE), "raised": Answer({}, b"")}
    slurm.poll(future)
    assert future.result(0) == 5


def test_a_job_that_slurmctld_has_forgotten_is_asked_of_accounting(
    slurm: Slurm, future: JobFuture[int]
) -> None:
    slurm.answers = {"returned": Answer({"kind": "result"}, FIVE)}
    slurm.poll(future)
    assert future.result(0) == 5


def test_the_functions_exception_is_of_a_job_that_failed_alone(
    slurm: Slurm, future: JobFuture[int], spec: ClusterSpec
) -> None:
    about = {"kind": "exception", "type": "Odd", "message": "why", "rank": 1, "traceback": "lines"}
    slurm.answers = {"raised": Answer(about, b"")}
    slurm.states = {"12": JobState.FAILED}
    slurm.poll(future)
    assert str(future.exception(0)) == "rank 1 of job 12 raised Odd: why"
    other: JobFuture[int] = JobFuture(future.job)
    slurm.states, slurm.later = {"12": JobState.TIMEOUT}, Outcome(12, JobState.TIMEOUT)
    slurm.poll(other)
    assert str(other.exception(0)) == "job 12 ended as TIMEOUT"


def test_a_good_job_without_a_result_is_an_error(slurm: Slurm, future: JobFuture[int]) -> None:
    slurm.states = {"12": JobState.COMPLETED}
    slurm.poll(future)
    assert "ended without a result" in str(future.exception(0))


def test_an_unread_answer_is_the_futures_error_and_a_lost_connection_is_not(
    slurm: Slurm, future: JobFuture[int]
) -> None:
    slurm.states = {"12": JobState.COMPLETED}
    slurm.error = CorralError(Code.UNREACHABLE, "gone")
    with pytest.raises(CorralError, match="gone"):
        slurm.poll(future)
    assert not future.done()
    slurm.error = CorralError(Code.COMMAND_FAILED, "others may write to it")
    slurm.poll(future)
    assert future.exception(0) is slurm.error


class Leaves:
    """Unpickling it ends the program."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


@pytest.mark.parametrize(
    ("state", "name", "bad"),
    [
        (JobState.COMPLETED, "returned", Answer({"kind": "result"}, pickle.dumps(Leaves()))),
        (JobState.FAILED, "raised", Answer({"kind": "exception"}, pickle.dumps(Leaves()))),
        (JobState.FAILED, "raised", Answer({"kind": "size", "size": None}, b"")),
        (JobState.FAILED, "raised", Answer({"kind": "size", "size": [1]}, b"")),
    ],
    ids=["result", "exception", "size", "sizes"],
)
def test_a_bad_answer_is_the_error_of_its_own_future(
    slurm: Slurm, future: JobFuture[int], state: JobState, name: str, bad: Answer
) -> None:
    slurm.states, slurm.answers = {"12": state}, {name: bad}
    slurm.poll(future)
    assert isinstance(future.exception(0), CorralError)


@pytest.mark.parametrize("raised", [SystemExit(3), RuntimeError("a bug")], ids=repr)
def test_whatever_one_answer_raises_other_futures_go_on(
    slurm: Slurm, future: JobFuture[int], monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    handle = JobHandle(13, "job", "corral", "/shared/job", 1, "node0")
    other: JobFuture[int] = JobFuture(Job(future.job.spec, handle))

    async def answered(
        _: Fleet, asked: JobHandle, __: JobState, *, trusted: bool
    ) -> tuple[Any, None]:
        assert not trusted
        if asked.ref == "12":
            raise raised
        return 5, None

    monkeypatch.setattr(function, "_answer", answered)
    slurm.states = {"12": JobState.COMPLETED, "13": JobState.COMPLETED}
    asyncio.run(function._poll(FLEET, "node0", {"12": future, "13": other}))
    assert future.exception(0) is raised
    assert other.result(0) == 5


def test_who_is_trusted_with_running_code_here(
    spec: ClusterSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user of a profile is who submits; that of a cluster file's job is another one."""
    handle = JobHandle(12, "job", "ada", "/shared/job", 1, "node0")
    group = {"name": "nodes", "provider": "ssh", "nodes": "a"}
    parts = [{"name": "main", "groups": ["nodes"]}]
    fields = {"corral": "v1", "name": "lab", "groups": [group], "partitions": parts}
    profile = Profile(
        node="a", cluster=fields, corral="0.1.0", host="h", user="ada", name="lab", uid=1000
    )
    own = client_spec(profile, tmp_path)
    assert JobFuture[int](Job(own, handle)).trusted
    cluster = Cluster(spec)
    monkeypatch.setattr(cluster._watcher, "watch", lambda _: None)
    assert not cluster._futures([handle])[0].trusted
    cluster.trust_results = True
    assert cluster._futures([handle])[0].trusted


def test_a_callback_that_ends_the_program_ends_itself(future: JobFuture[int]) -> None:
    future.add_done_callback(lambda _: sys.exit(3))
    finish(future, 5, None)
    assert future.result(0) == 5


def test_the_doctor_explains_what_the_job_printed() -> None:
    when = "CANCELLED AT 2026-11-29T08:00:00 DUE TO TIME LIMIT"
    line = f"slurmstepd: error: *** JOB 12 ON node0 {when} ***"
    error = explained(Outcome(12, JobState.TIMEOUT), ["epoch 1", line])
    assert error.code is Code.NOT_GOOD
    assert "time limit" in error.hint
    assert "corral logs 12" in error.hint
    assert error.tail.endswith(line)


class Broken:
    """In place of ``Connection``: none is made."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.tried = 0

    async def open(self, *_: object, **__: object) -> object:
        self.tried += 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (RuntimeError("a bug"), 1),
        (SystemExit(3), 1),
        (CorralError(Code.UNREACHABLE, "gone"), 3),
    ],
)
def test_no_future_is_left_without_an_end(
    spec: ClusterSpec,
    future: JobFuture[int],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    tries: int,
) -> None:
    """A connection is tried again for a while; then, and at any other error, all futures end."""
    broken, now = Broken(error), [0.0]
    monkeypatch.setattr(function, "Connection", broken)
    monkeypatch.setattr(function, "POLL_S", 0.0)

    def monotonic() -> float:
        now[0] += function.BROKEN_S / 3 + 1
        return now[0]

    monkeypatch.setattr(function, "time", type("Clock", (), {"monotonic": monotonic}))
    watcher = Watcher(spec)
    watcher.watch([future])
    assert future.exception(10) is error
    assert broken.tried == tries
    again: JobFuture[int] = JobFuture(future.job)
    watcher.watch([again])
    assert again.exception(10) is error


def test_arguments_of_a_script_are_not_positional(spec: ClusterSpec) -> None:
    with pytest.raises(TypeError, match=r"args=\["):
        Cluster(spec).submit("train.py", 5)  # pyright: ignore


def test_an_empty_map_submits_nothing(spec: ClusterSpec) -> None:
    assert Cluster(spec).map(str, []) == []
