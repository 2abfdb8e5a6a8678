"""Every release's recorded answers read alike: the directory listing is the matrix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.slurm.rest import read

RECORDED = Path(__file__).parents[3] / "recorded" / "rest"
FOLDERS = sorted(path for path in RECORDED.glob("*/v0.0.*"))


def answer(folder: Path, what: str) -> tuple[int, Any]:
    data = json.loads((folder / f"{what}.json").read_text())
    return data["status"], data["body"]


def version(folder: Path) -> int:
    return int(folder.name.rpartition(".")[2])


@pytest.fixture(params=FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_what_was_recorded() -> None:
    releases = {path.parent.name for path in FOLDERS}
    assert releases >= {"22.05", "24.11", "26.05"}
    assert {version(path) for path in FOLDERS} >= {38, 40, 41, 42, 43, 44, 45}


def test_nodes(folder: Path) -> None:
    _, body = answer(folder, "nodes")
    nodes = {node.name: node for node in read.nodes_of(body, version(folder)).records}
    assert sorted(nodes) == ["gone", "node0", "node1", "node2"]
    assert str(nodes["node0"].state) == "MIXED"
    assert nodes["node0"].usable
    assert (nodes["node0"].gpus, nodes["node0"].gpus_used) == (2, 2)
    assert (nodes["node0"].cpus, nodes["node0"].cpus_used) == (4, 2)
    assert (nodes["node0"].memory, nodes["node0"].memory_used) == (4000, 300)
    assert nodes["node0"].partitions == ("main", "long")
    assert nodes["node0"].features == ("fast", "ib")
    assert nodes["node0"].active_features == ("fast", "ib")
    assert nodes["node0"].load is not None
    assert nodes["node0"].version.startswith(folder.parent.name)
    assert str(nodes["node2"].state) == "IDLE+DRAIN"
    assert not nodes["node2"].usable
    assert nodes["node2"].reason == '<b>fan</b> "broken" & loud'
    assert nodes["node2"].reason_by == "root"
    assert nodes["node2"].reason_at
    assert not nodes["gone"].usable


def test_jobs(folder: Path) -> None:
    _, body = answer(folder, "jobs")
    jobs = {job.id: job for job in read.jobs_of(body, version(folder)).records}
    first, second, third, fourth, held, array = (jobs[n] for n in range(1, 7))
    assert (first.user, first.state, first.nodes, first.gpus, first.memory) == (
        "kim",
        "RUNNING",
        "node0",
        1,
        100,
    )
    assert first.stdout == "/tmp/one-1.log"
    assert first.limit == 86400
    assert second.name == "<script>alert(1)</script>"
    assert (second.user, second.nodes, second.node_count, second.gpus, second.limit) == (
        "ada",
        "node[0-1]",
        2,
        2,
        1800,
    )
    assert (third.state, third.exit_status, third.ended) == ("FAILED", 3, True)
    assert (fourth.state, fourth.exit_status) == ("COMPLETED", 0)
    assert held.held
    assert held.why == "it is held: scontrol release"
    assert held.comment == "held by hand"
    assert held.start_at is None
    assert array.label == "6_[1-30%2]"
    assert (array.partition, array.limit, array.gpus) == ("long", None, 2)
    assert array.waiting
    assert array.why


def test_partitions(folder: Path) -> None:
    _, body = answer(folder, "partitions")
    partitions = {p.name: p for p in read.partitions_of(body, version(folder)).records}
    main = partitions["main"]
    assert (main.nodes, main.node_count, main.max_time) == ("node[0-2]", 3, 86400)
    assert partitions["long"].max_time is None
    assert main.state == "UP"


def test_release(folder: Path) -> None:
    _, body = answer(folder, "ping")
    assert read.metadata(body).release.startswith(folder.parent.name)


def test_submitted_and_cancelled(folder: Path) -> None:
    status, body = answer(folder, "submit")
    assert status == 200
    assert read.submitted(body) > 6
    status, body = answer(folder, "cancel")
    assert (status, read.metadata(body).errors) == (200, ())


def test_refused(folder: Path) -> None:
    _, body = answer(folder, "refused")
    with pytest.raises(CorralError) as caught:
        read.submitted(body)
    assert caught.value.code is Code.SLURM_REFUSED
    assert "partition" in str(caught.value).lower()


def test_errors_are_reported(folder: Path) -> None:
    for what in ("no-job", "bad-token"):
        status, body = answer(folder, what)
        assert status >= 400
        assert read.metadata(body).errors


def test_one_broken_record_hides_no_other(folder: Path) -> None:
    _, body = answer(folder, "jobs")
    body["jobs"].insert(0, {"job_id": "x"})
    body["jobs"].insert(0, 7)
    known = read.jobs_of(body, version(folder))
    assert (len(known.records), known.unread) == (len(body["jobs"]) - 2, 2)


def test_role() -> None:
    body = {"users": [{"name": "kim", "administrator_level": ["Operator"]}]}
    assert read.role_of(body, "kim") == "operator"
    assert read.role_of(body, "ada") == "user"
    assert read.role_of({"users": "?"}, "kim") == "user"
    body["users"][0]["administrator_level"] = ["Administrator"]
    assert read.role_of(body, "kim") == "administrator"


@pytest.mark.parametrize("filled_in", [True, False], ids=["from 25.05 on", "before"])
def test_the_output_of_an_arrays_tasks(filled_in: bool) -> None:
    """Those that have not started have no number yet: slurmrestd fills in 4294967294."""
    unset = {"set": False, "infinite": False, "number": 0}
    ready = {"stdout_expanded": "/shared/task-4294967294/batch.log"} if filled_in else {}
    raw = {
        "job_id": 29, "job_state": ["PENDING"], "name": "sweep", "array_job_id": 29,
        "array_task_id": unset, "array_task_string": "1-3",
        "standard_output": "/shared/task-%a/batch.log", **ready,
    }  # fmt: skip
    assert read.job(raw, 44).stdout == "/shared/task-%a/batch.log"
    in_pattern = {**raw, "standard_output": "/shared/task-4294967294/batch.log"}  # 24.11.5, seen
    assert read.job(in_pattern, 41).stdout == "/shared/task-%a/batch.log"
    ready = {"stdout_expanded": "/shared/task-1/batch.log"} if filled_in else {}
    task = {**raw, **ready, "job_id": 30, "array_task_id": {**unset, "set": True, "number": 1}}
    if not filled_in:
        del task["array_task_string"]
    assert read.job(task, 44).stdout == "/shared/task-1/batch.log"
    past = {
        "job_id": 29, "state": {"current": ["CANCELLED"]},
        "array": {"job_id": 29, "task_id": unset},
        "stdout_expanded": "/shared/task-4294967294/batch.log",
    }  # fmt: skip
    assert read.past_job(past, 44).stdout == "/shared/task-%a/batch.log"


@pytest.mark.parametrize(
    ("reason", "start"),
    [("AssocGrpGRES", None), ("QOSMaxGRESPerUser", None), ("Resources", 1_800_000_000)],
)
def test_a_job_that_a_limit_holds_back_has_no_start(reason: str, start: int | None) -> None:
    at = {"set": True, "infinite": False, "number": 1_800_000_000}
    raw = {"job_id": 5, "job_state": ["PENDING"], "state_reason": reason, "start_time": at}
    assert read.job(raw, 42).start_at == start
    assert read.job({**raw, "job_state": ["RUNNING"]}, 42).start_at == 1_800_000_000
