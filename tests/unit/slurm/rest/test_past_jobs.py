"""Accounting's jobs: every recorded version reads alike, by slurmrestd and by sacct."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import CorralError
from corral.slurm.records import Job
from corral.slurm.rest import past_jobs, read
from corral.slurm.states.jobs import ended_states, recorded_states
from corral.slurm.text import parse_history

RECORDED = Path(__file__).parents[3] / "recorded" / "rest"
FOLDERS = sorted(path.parent for path in RECORDED.glob("*/v0.0.*/past.json"))


def jobs(folder: Path, what: str = "past") -> list[Job]:
    body = json.loads((folder / f"{what}.json").read_text())["body"]
    return [*read.listed(body, "jobs", read.past_job, int(folder.name[-2:])).records]


def test_what_was_recorded() -> None:
    assert {path.name for path in FOLDERS} >= {"v0.0.40", "v0.0.41", "v0.0.42"}


@pytest.fixture(params=FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_jobs_of_a_period(folder: Path) -> None:
    by_id = {job.id: job for job in jobs(folder)}
    assert len(by_id) == 30
    assert all(job.ended and job.end_at and job.submit_at for job in by_id.values())
    evil = by_id[23]
    assert evil.name == "<script>alert(1)</script>"
    assert (evil.user, evil.account, evil.state) == ("kim", "corral", "COMPLETED")
    assert (evil.gpus, evil.cpus, evil.memory, evil.node_count) == (1, 1, 100, 1)
    assert (evil.nodes, evil.partition, evil.qos) == ("node0", "main", "normal")
    assert (evil.exit_status, evil.exit_signal, evil.reason, evil.limit) == (0, 0, "", None)
    assert (by_id[24].name, by_id[24].exit_status, by_id[24].limit) == ("ends with 3", 3, 1800)
    assert (by_id[25].state, by_id[25].exit_signal) == ("FAILED", 9)
    assert {by_id[n].label for n in (26, 29, 30)} == {"26_1", "26_2", "26_3"}
    never = by_id[27]
    assert (never.state, never.nodes) == ("CANCELLED", "")
    assert {job.user for job in jobs(folder, "past-user")} == {"kim"}
    assert not jobs(folder, "past-none")
    assert not jobs(folder, "past-no-job")
    (job,) = jobs(folder, "past-job")
    assert job.id == 28
    assert job.node_count == 2


def test_output_is_named_where_accounting_names_it() -> None:
    """v0.0.40 of 24.11 names no files; later ones fill in sbatch's patterns."""
    named = {folder.name: jobs(folder, "past-job")[0].stdout for folder in FOLDERS}
    assert named["v0.0.42"] == "/tmp/six-28.log"


def test_what_a_job_asked_for_is_known_when_slurmctld_has_forgotten_it() -> None:
    raw = {
        "job_id": 5,
        "state": {"current": ["COMPLETED"]},
        "group": "vision",
        "wckey": {"wckey": "paper", "flags": []},
        "time": {"eligible": 1795353351},
        "tres": {
            "allocated": [{"type": "cpu", "name": "", "count": 8}],
            "requested": [
                {"type": "cpu", "name": "", "count": 2},
                {"type": "mem", "name": "", "count": 192},
                {"type": "gres", "name": "gpu", "count": 3},
            ],
        },
    }
    job = read.past_job(raw, 44)
    assert (job.group, job.wckey, job.eligible_at) == ("vision", "paper", 1795353351)
    assert job.tres_asked == "cpu=2,mem=192M,gres/gpu=3"
    assert job.cpus == 8


def test_what_is_no_job_is_left_out() -> None:
    bad: list[Any] = [
        {},
        {"job_id": 1},
        {"job_id": "x", "state": 7},
        {"state": {"current": ["FAILED"]}},
    ]
    good = {"job_id": 1, "state": {"current": ["FAILED"]}}
    known = read.tried([*bad, good], "jobs", read.past_job, 42)
    assert ([job.id for job in known.records], known.unread) == ([1], 4)
    assert known.note("jobs") == "4 of 5 jobs in Slurm's answer cannot be read and are left out"
    with pytest.raises(CorralError, match="none of its 4 jobs can be read"):
        read.tried(bad, "jobs", read.past_job, 42)


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["state", "time", "tres", "array", "exit_code", "name", "nodes", "user"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(
                    st.sampled_from(["current", "allocated", "number", "set", "end", "type"]), inner
                )
            ),
            max_leaves=4,
        ),
    )
)
def test_no_record_breaks_the_reader(fields: dict[str, Any]) -> None:
    try:
        job = read.past_job({"job_id": 5, **fields}, 42)
    except CorralError:
        return
    assert job.id == 5


def test_sacct_reports_the_same() -> None:
    line = "\x1f".join(
        (
            "26_2",
            "29",
            "CANCELLED by 2077",
            "0:9",
            "0:0",
            "main",
            "kim",
            "corral",
            "2",
            "4",
            "billing=1,cpu=4",
            "cpu=4,gres/gpu=2,mem=100M,node=2",
            "7",
            "1795353910",
            "1795353911",
            "1795353918",
            "node[0-1]",
            "a name",
        )
    ).replace("\x1f", "MARK")
    (job,) = parse_history(line, "MARK")
    assert (job.id, job.label, job.state, job.exit_signal) == (29, "26_2", "CANCELLED", 9)
    assert (job.gpus, job.memory, job.cpus, job.node_count) == (2, 100, 4, 2)
    assert (job.nodes, job.end_at) == ("node[0-1]", 1795353918)
    assert job.ended


@pytest.mark.parametrize("days", [1, 7, 30])
def test_parts_of_a_period_leave_no_gap(days: int) -> None:
    parts = past_jobs.windows(days)
    assert parts[0][1] == 0
    assert parts[-1][0] == days
    assert all(before[0] == after[1] for before, after in pairwise(parts))


def test_what_is_asked() -> None:
    assert set(recorded_states()) < set(ended_states())
    query = dict(past_jobs.params((7, 3), "kim", "lab"))
    assert (query["start_time"], query["end_time"]) == ("now-7days", "now-3days")
    assert (query["users"], query["cluster"], query["skip_steps"]) == ("kim", "lab", "true")
    assert "users" not in past_jobs.params((1, 0), "", "lab")
    assert "--user=kim" in past_jobs.command(7, "kim", "abc").words
    assert "--allusers" in past_jobs.command(7, "", "abc").words


def test_the_newest_are_kept_and_the_last_run_of_each() -> None:
    job = Job(1, "1", "a", "kim", "FAILED", end_at=100)
    many = [replace(job, id=n, end_at=n) for n in range(2, past_jobs.MOST + 10)]
    history = past_jobs.newest([job, *many, replace(job, end_at=9999, state="COMPLETED")])
    assert history.cut
    assert len(history.jobs) == past_jobs.MOST
    assert (history.jobs[0].id, history.jobs[0].state) == (1, "COMPLETED")
    assert not past_jobs.newest([job]).cut


def test_comments_of_administrators_and_of_slurm_are_read() -> None:
    """slurmctld has them next to each other, accounting in one record."""
    ended = {"state": {"current": ["COMPLETED"]}}
    past = {
        "job_id": 5,
        **ended,
        "comment": {"administrator": "moved", "job": "mine", "system": "stage"},
    }
    now = {"job_id": 5, "job_state": ["RUNNING"], "comment": "mine"}
    now |= {"admin_comment": "moved", "system_comment": "stage"}
    for job in (read.past_job(past, 44), read.job(now, 44)):
        comments = (job.comment, job.admin_comment, job.system_comment)
        assert comments == ("mine", "moved", "stage")
