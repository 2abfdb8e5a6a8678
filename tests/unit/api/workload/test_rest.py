"""Jobs over slurmrestd: parts of arrays, lists, and waits that outlast a gap."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from corral.api.workload import rest
from corral.errors import Code, CorralError
from corral.events import Event
from corral.jobs.model import parse_job
from corral.runtime.http_client import NoResponseError, RefusedError, Response
from corral.spec.client import Profile, client_spec
from tests.unit.jobs.rest.test_client import Played, client

ARRAY = 12


def record(number: int, state: str, task: int | None = None, tasks: str = "") -> dict[str, Any]:
    """A job of slurmctld's; with a task, or tasks that have not begun, of array 12."""
    of_array: dict[str, Any] = {}
    if task is not None or tasks:
        known = {"set": task is not None, "infinite": False, "number": task or 0}
        of_array = {
            "array_job_id": {"set": True, "infinite": False, "number": ARRAY},
            "array_task_id": known,
            "array_task_string": tasks,
        }
    return {"job_id": number, "job_state": [state], "user_name": "alice", **of_array}


class Cluster(Played):
    """A slurmrestd of one array; a cancel ends what Slurm ends for that target."""

    def __init__(self, *jobs: dict[str, Any], newest: int = 42) -> None:
        super().__init__(job_12={"jobs": list(jobs)}, job_14={"jobs": list(jobs)})
        self.newest = newest
        self.deleted: list[str] = []

    def send(self, method: str, url: str, *args: Any, **options: Any) -> Response:
        version, _, path = url.partition("v0.0.")[2].partition("/")
        if int(version) > self.newest:
            raise RefusedError(404, "Not Found", b"{}")
        if method == "DELETE":
            self.deleted.append(path)
            return Response(b'{"errors": []}', {}, 0)
        return super().send(method, url, *args, **options)


RUNNING = (
    record(14, "COMPLETED", 0),
    record(15, "RUNNING", 3),
    record(12, "COMPLETED", 9),
    record(16, "PENDING", tasks="5-8%2"),
)


def cancelled(cluster: Cluster, ref: int | str) -> list[str]:
    asyncio.run(rest.rest_cancel(client(cluster), ref))
    return cluster.deleted


@pytest.mark.parametrize(
    ("ref", "deleted"),
    [
        ("12_3", ["job/12_3"]),
        ("12_03", ["job/12_3"]),
        ("12_6", ["job/12_6"]),
        ("12_9", []),
        ("12_0", []),
        (12, ["job/12"]),
        ("12", ["job/12"]),
    ],
)
def test_a_part_is_cancelled_alone_and_an_array_until_all_of_it_has_ended(
    ref: int | str, deleted: list[str]
) -> None:
    assert cancelled(Cluster(*RUNNING), ref) == deleted


def test_before_24_11_a_part_is_cancelled_by_its_own_number_or_not_at_all() -> None:
    assert cancelled(Cluster(*RUNNING, newest=41), "12_3") == ["job/15"]
    last = (record(12, "RUNNING", 9), record(15, "RUNNING", 3))
    for jobs, ref in ((last, "12_9"), (RUNNING, "12_6")):
        cluster = Cluster(*jobs, newest=41)
        with pytest.raises(CorralError, match="cancels only all of array 12") as caught:
            cancelled(cluster, ref)
        assert caught.value.code is Code.SLURM_REFUSED
        assert caught.value.hint.endswith(f"scancel {ref}")
        assert not cluster.deleted


@pytest.mark.parametrize(
    ("ref", "state", "shown"),
    [
        ("12_3", "RUNNING", "12_3"),
        ("12_6", "PENDING", "12_6"),
        ("12_9", "COMPLETED", "12_9"),
        (12, "RUNNING", "12"),
    ],
)
def test_a_part_has_the_state_of_its_own_record(ref: int | str, state: str, shown: str) -> None:
    outcome = asyncio.run(rest.rest_state(client(Cluster(*RUNNING)), ref))
    assert (outcome.state.value, outcome.ref) == (state, shown)


def test_an_array_that_has_ended_is_good_only_if_all_of_it_is() -> None:
    ended = (record(12, "COMPLETED", 9), record(15, "FAILED", 3))
    outcome = asyncio.run(rest.rest_state(client(Cluster(*ended)), 12))
    assert outcome.state.value == "FAILED"


@pytest.mark.parametrize("ref", ["12_", "12_x", "x", "12_[3-5]", "_3", "0"])
def test_what_is_not_a_job_number(ref: str) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(rest.rest_state(client(Cluster(*RUNNING)), ref))
    assert caught.value.code is Code.USAGE


def test_a_part_that_is_nowhere() -> None:
    with pytest.raises(CorralError, match="Slurm knows no job 12_77"):
        asyncio.run(rest.rest_state(client(Cluster(*RUNNING)), "12_77"))


def past(number: int, state: str) -> dict[str, Any]:
    return {"job_id": number, "state": {"current": [state]}, "user": "alice"}


def test_jobs_that_cannot_be_read_are_reported_and_none_is_called_unknown() -> None:
    ended = {"jobs": [past(7, "FAILED"), {"job_id": "x"}]}
    played = Played(jobs={"jobs": [record(8, "RUNNING"), {"job_id": "x"}]})

    def send(method: str, url: str, *args: Any, **options: Any) -> Response:
        if "/slurmdb/" in url:
            return Response(json.dumps(ended).encode(), {}, 0)
        return Played.send(played, method, url, *args, **options)

    played.send = send  # type: ignore[method-assign]
    seen: list[Event] = []
    jobs = asyncio.run(rest.rest_jobs(client(played), ended=True, emit=seen.append))
    assert [job.id for job in jobs] == [8, 7]
    assert [event.message for event in seen] == [
        "1 of 2 jobs in Slurm's answer cannot be read and are left out",
        "1 of 2 jobs of accounting in Slurm's answer cannot be read and are left out",
    ]
    assert asyncio.run(rest.rest_state(client(played), 7)).state.value == "FAILED"
    with pytest.raises(CorralError, match="job 9 is not among what can be read") as caught:
        asyncio.run(rest.rest_state(client(played), 9))
    assert caught.value.code is Code.PARSE_FAILED


def test_a_requeued_job_is_listed_as_it_is_now_and_an_ended_one_as_accounting_has_it() -> None:
    live = [record(7, "RUNNING"), record(8, "COMPLETED")]
    ended = [past(7, "NODE_FAIL"), past(8, "FAILED"), past(6, "COMPLETED")]
    played = Played(jobs={"jobs": live})

    def send(method: str, url: str, *args: Any, **options: Any) -> Response:
        if "/slurmdb/" in url:
            return Response(json.dumps({"jobs": ended}).encode(), {}, 0)
        return Played.send(played, method, url, *args, **options)

    asked = client(played)
    asked._http.send = send  # type: ignore[method-assign]
    both = asyncio.run(rest.rest_jobs(asked, ended=True))
    assert [(job.id, job.state) for job in both] == [
        (8, "FAILED"),
        (7, "RUNNING"),
        (6, "COMPLETED"),
    ]
    assert [job.id for job in asyncio.run(rest.rest_jobs(asked, ended=False))] == [7]


class Flaky(Played):
    """A slurmrestd whose responses about job 7 are played one after the other."""

    def __init__(self, *polls: Any) -> None:
        super().__init__(job_submit={"job_id": 7})
        self.polls = list(polls)

    def send(self, method: str, url: str, *args: Any, **options: Any) -> Response:
        if url.endswith("/job/7"):
            self.answers["job_7"] = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        return super().send(method, url, *args, **options)


def ran(played: Played) -> tuple[str, list[str]]:
    fields: dict[str, Any] = {"corral": "v1", "name": "lab", "groups": [GROUP]}
    profile = Profile(node="a", cluster=fields, host="x", user="alice", name="lab", uid=0, rest="x")
    seen: list[Event] = []
    job = parse_job({"command": ["hostname"]})
    spec = client_spec(profile, Path())
    done = asyncio.run(rest.rest_run(spec, client(played), job, seen.append, lambda _: None))
    return done.state.value, [event.message for event in seen]


GROUP = {"name": "nodes", "provider": "ssh", "nodes": "a"}
BROKEN = NoResponseError("Connection refused")
PROXY = RefusedError(502, "Bad Gateway", b"<html>")
CONTROLLER = RefusedError(
    500, "", b'{"errors": [{"error": "Unable to contact slurm controller (connect failure)"}]}'
)


def test_a_wait_outlasts_failed_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "POLL_S", 0.0)
    running, done = ({"jobs": [record(7, state)]} for state in ("RUNNING", "COMPLETED"))
    state, notes = ran(Flaky(running, BROKEN, PROXY, CONTROLLER, running, PROXY, done))
    assert state == "COMPLETED"
    again = [note for note in notes if note.endswith("trying again")]
    assert ["Connection refused" in again[0], "502" in again[1], len(again)] == [True, True, 2]


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (BROKEN, Code.UNREACHABLE),
        (PROXY, Code.UNREACHABLE),
        (Response(b'{"jobs": [{"job_', {}, 30), Code.PARSE_FAILED),
        (Response(b"{}", {}, 0), Code.PARSE_FAILED),
        (RefusedError(401, "Unauthorized", b"Authentication failure"), Code.LOGIN_REFUSED),
    ],
)
def test_a_wait_that_ends_reports_that_the_job_runs_on(
    last: Exception | Response, code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "POLL_S", 0.0)
    monkeypatch.setattr(rest, "PATIENCE_S", 0.0)
    with pytest.raises(CorralError, match="job 7 is not cancelled and runs on") as caught:
        ran(Flaky({"jobs": [record(7, "RUNNING")]}, last))
    assert caught.value.code is code
