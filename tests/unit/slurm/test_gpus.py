"""GPUs of jobs against what real jobs were given (``tests/recorded/gpus``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from corral.slurm.records import Job, Node, gpus_settled
from corral.slurm.rest import commands, past_jobs, read
from corral.slurm.rest.read import past_job
from corral.slurm.states.nodes import NodeState
from corral.slurm.text import parse_counted, parse_history, parse_job, parse_tres
from corral.slurm.tres import (
    Gpus,
    Request,
    asked,
    gres_of,
    listed,
    of_type,
)
from corral.web.exposition import untracked

RECORDED = Path(__file__).parents[2] / "recorded" / "gpus"
MODES = sorted(RECORDED.glob("*/*tracked"))
ANSWERS = sorted(RECORDED.glob("*/*/*.json"))
FEWEST = {
    "none": 0, "gres-none": 0, "gres": 2, "gres-bare": 1, "gres-nodes": 4, "gres-typed": 2,
    "gres-two-types": 6, "gres-range": 2, "job": 3, "job-nodes": 3, "job-typed": 2,
    "job-two-types": 3, "job-and-node": 4, "job-and-task": 4, "node": 4, "node-typed": 2,
    "node-two-types": 2, "node-many-tasks": 1, "task": 3, "task-nodes": 4, "task-typed": 4,
    "task-two-types": 2, "socket": 2, "socket-nodes": 4, "socket-typed": 2, "tasks-of-gpu": 2,
    "tasks-of-gpu-nodes": 4, "tasks-of-gpus": 2, "tres-task": 2, "shard": 0, "array": 1,
    "array-nodes": 2, "infinite": 1, "exclusive": 1, "exclusive-none": 0, "exclusive-job": 2,
    "node-range": 2, "task-many": 40,
}  # fmt: skip
"""What sbatch's options of that name ask for at least (tests/recorded/gpus/record.py)."""
OPEN = {"gres-range", "node-many-tasks", "exclusive", "exclusive-job", "node-range"}
"""Requests to which Slurm may give more."""


def truth(folder: Path) -> dict[int, int]:
    """GPUs that each job found in its own environment, on all its nodes."""
    counts: dict[int, int] = {}
    for line in (folder / "given.txt").read_text().splitlines():
        job, _, gpus = line.split(" ")
        counts[int(job)] = counts.get(int(job), 0) + len([g for g in gpus.split(",") if g])
    return counts


def jobs(path: Path) -> dict[int, tuple[str, Job]]:
    body: Any = json.loads(path.read_text())
    stem = path.stem.rpartition("v0.0.")[2]
    version = int(stem) if stem.isdecimal() else commands.version_of(body)
    return {job.id: (job.name, job) for job in read.jobs_of(body, version).records}


def test_what_was_recorded() -> None:
    assert {path.parent.name for path in MODES} >= {"22.05", "24.11"}
    assert {path.name for path in MODES} == {"tracked", "untracked"}


@pytest.mark.parametrize(
    "path", [p for p in ANSWERS if "past" not in p.name], ids=lambda p: f"{p.parts[-3:]}"
)
def test_running_jobs_have_what_they_were_given(path: Path) -> None:
    given, reported = truth(path.parent), jobs(path)
    running = {n: entry for n, entry in reported.items() if entry[1].state == "RUNNING"}
    assert len(running) > 30
    wrong: dict[str, tuple[int, int, bool]] = {}
    for number, (name, job) in running.items():
        expected = 0 if name == "shard" else given[number]  # a shard's job sees its GPU, others too
        if name == "gres-two-types":  # the second node's prolog knows of one type only
            expected = 6
        if (job.gpus, job.gpus_exact) != (expected, True):
            wrong[name] = (job.gpus or 0, expected, job.gpus_exact)
    assert not wrong


@pytest.mark.parametrize(
    "path", [p for p in ANSWERS if "past" not in p.name], ids=lambda p: f"{p.parts[-3:]}"
)
def test_waiting_jobs_ask_for_so_many(path: Path) -> None:
    pending = {
        name.removeprefix("wait-"): job
        for name, job in jobs(path).values()
        if job.state == "PENDING" and name.startswith("wait-")
    }
    pending.pop("het")
    if path.parts[-3:-1] == ("22.05", "untracked"):
        # 22.05 does not report --ntasks-per-gpu before the job runs.
        for name in ("tasks-of-gpu", "tasks-of-gpu-nodes"):
            pending.pop(name)
    assert len(pending) > 30
    asked = {name: (job.gpus, job.gpus_exact) for name, job in pending.items()}
    release = path.parts[-3]
    if release != "24.11":  # which keeps one of two types for a task
        assert asked.pop("task-two-types") == (4, True)
    if release == "26.05":  # whose newest JSON does not state that a job has nodes to itself
        asked |= {n: (asked[n][0], False) for n in ("exclusive", "exclusive-job")}
    assert asked == {name: (FEWEST[name], name not in OPEN) for name in asked}


@pytest.mark.parametrize(
    "path", [p for p in ANSWERS if "past" not in p.name], ids=lambda p: f"{p.parts[-3:]}"
)
def test_heterogeneous_jobs_arrays_and_no_limit(path: Path) -> None:
    every = [job for _, job in jobs(path).values()]
    parts = {job.label: job.gpus or 0 for job in every if job.name in ("het", "wait-het")}
    assert sorted(parts.values()) == [0, 0, 1, 1, 2, 2]
    assert all("+" in label for label in parts)
    tasks = [job for job in every if job.name == "array"]
    assert {job.gpus for job in tasks} == {1}
    assert any("[" in job.label for job in tasks)
    assert [job.limit for job in every if job.name == "infinite"] == [None]
    (ended,) = [job for job in every if job.name == "ended"]
    assert (ended.gpus, ended.gpus_exact) == (2, True)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", None), ("(null)", None), ("N/A", None), ("cpu=2,mem=10M", None),
        ("gpu", 1), ("gpu:2", 2), ("gpu:h200:2", 2), ("gpu:h200", 1), ("gres:gpu:h200:2", 2),
        ("gres/gpu", 1), ("gres/gpu:h200", 1), ("gres/gpu=4", 4), ("gres/gpu:h200=4", 4),
        ("gres/gpu=0", 0), ("gpu:0(IDX:)", 0), ("cpu=4,gres/gpu=4,gres/gpu:h200=4", 4),
        ("gres/gpu:a100=1,gres/gpu:h100=2", 3), ("gres/gpu:a100:2,gres/gpu:h100:1", 3),
        ("gpu:a100:2(IDX:0,3),gpu:h100:1(IDX:5)", 3), ("gpu:h100:4(S:0-1)", 4),
        ("gpu(CNT:2)", 2), ("gpu:h200(CNT:3)", 3), ("gpu:a100(CNT:1),gpu:h100(CNT:2)", 3),
        ("gpu:a100(CNT:0)", 0), ("gpu:h100:1(IDX:0),shard(CNT:4)", 1), ("gpu:2(CNT:2)", 2),
        ("gpu:a100:4(S:0,2),gpu:h100:4(S:1),shard:8(S:0)", 8),
        ("shard:2(2/4)", None), ("gres/shard=8,gres/mps=100", None), ("mps:200", None),
        ("gres/gpumem=10G,gres/gpuutil=80", None), ("gpu_mem:4", None), ("craynetwork:1", None),
        ("gpu:1g.10gb:3", 3), ("gpu:nvidia_a100-sxm4-80gb:8", 8), ("gpu:rtx_5090:2", 2),
        ("license/matlab=2", None), ("gpu:2,nic:1", 2),
    ],
)  # fmt: skip
def test_lists(text: str, count: int | None) -> None:
    assert listed(text) == count


def test_types_of_a_node() -> None:
    gres = "gpu:a100:4(S:0,1),gpu:h100:2(S:1),shard:4"
    assert (of_type(gres, None), of_type(gres, "h100"), of_type(gres, "h200")) == (6, 2, 0)
    assert of_type("gpu:4", "h100") == 0


@drawn(st.text("gpu:=/,(IDX)-h0123 res", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    assert (listed(text) or 0) >= 0


def test_words() -> None:
    shown = [str(Gpus(count, exact)) for count, exact in ((2, True), (2, False), (0, False))]
    assert shown == ["2", "2+", "?"]
    open_ = Request(per_node="gpu:2", nodes=1, most_nodes=4).gpus()
    assert str(open_) == "2+"


def tres_of(line: str) -> str:
    job = parse_job(line)
    return job.tres if job else ""


def by_name(folder: Path) -> dict[str, str]:
    """``scontrol show job``'s line of each pending job."""
    lines = (folder / "scontrol.txt").read_text().splitlines()
    pending = {line.partition("JobName=wait-")[2].partition(" ")[0]: line for line in lines}
    return {name: line for name, line in pending.items() if name not in ("", "het")}


@pytest.mark.parametrize("folder", MODES, ids=lambda p: f"{p.parts[-2:]}")
def test_what_a_waiting_job_lacks_counts_its_gpus(folder: Path) -> None:
    asked = {name: listed(tres_of(line)) or 0 for name, line in by_name(folder).items()}
    if folder.parent.name != "24.11":  # which keeps one of two types for a task
        assert asked.pop("task-two-types") == 4
    assert len(asked) > 30
    assert asked == {name: FEWEST[name] for name in asked}


@pytest.mark.parametrize(
    "folder", [p for p in MODES if p.name == "tracked"], ids=lambda p: p.parts[-2]
)
def test_squeues_columns(folder: Path) -> None:
    counts = parse_tres((folder / "tres.txt").read_text())
    by_number = jobs(next(folder.glob("jobs-*.json")))
    assert len(counts) > 80
    wrong = {
        name: (str(counts[number]), job.gpus, job.gpus_exact)
        for number, (name, job) in by_number.items()
        if counts[number] != job.gpu_count
        # squeue reports neither how many nodes -n may get nor exclusive nodes.
        and name not in ("wait-node-many-tasks", "wait-exclusive", "wait-exclusive-job")
    }
    assert not wrong


@pytest.mark.parametrize("folder", MODES, ids=lambda p: f"{p.parts[-2:]}")
def test_the_exporters_columns(folder: Path) -> None:
    lines = parse_counted((folder / "metrics.txt").read_text())
    running = [job for job in lines if job.state == "RUNNING"]
    used = [Node("node0", NodeState.parse("MIXED"), gres="gpu:8", gres_used="gpu:8")]
    assert len(running) > 30
    if folder.name == "untracked":
        assert untracked(used, lines)
        assert not untracked([], lines)
        body = json.loads((folder / "squeue.json").read_text())
        lines = list(read.jobs_of(body, commands.version_of(body)).records)
        running = [job for job in lines if job.state == "RUNNING"]
    else:
        assert not untracked(used, lines)
    given = truth(folder)
    named = {name: number for number, (name, _) in jobs(folder / "squeue.json").items()}
    for name in ("shard", "ended"):
        given.pop(named[name])
    given[named["gres-two-types"]] = 6
    assert sum(job.gpus or 0 for job in running) == sum(given.values())


@pytest.mark.parametrize("folder", MODES, ids=lambda p: f"{p.parts[-2:]}")
def test_accountings_jobs(folder: Path) -> None:
    """Without AccountingStorageTRES=gres/gpu the GPUs of a past job are unknown, never 0."""
    answer = gpus_settled(parse_history((folder / "sacct.txt").read_text()), uncounted=True)
    past = {job.id: job for job in answer}
    assert len(past) > 30
    if folder.name == "untracked":
        assert {str(job.gpu_count) for job in past.values()} == {"?"}
        return
    for number, (_, job) in jobs(folder / "squeue.json").items():
        if number in past and job.state == "RUNNING":
            assert past[number].gpu_count == Gpus(job.gpus or 0)


def past_line(tres: str, number: int) -> str:
    return (
        f"{number}|{number}|COMPLETED|0:0|0:0|main|ada|lab|1|4|{tres}|{tres}|60|"
        f"1700000000|1700000001|1700000061|node1|job{number}\n"
    )


COUNTED, UNCOUNTED = "billing=4,cpu=4,gres/gpu=2,node=1", "billing=4,cpu=4,mem=4G,node=1"


def test_accounting_without_gpus_is_unknown_not_none() -> None:
    """AccountingStorageTRES without gres/gpu: no record of any job names GPUs."""
    lines = past_line(UNCOUNTED, 1) + past_line(UNCOUNTED, 2)
    jobs = gpus_settled(parse_history(lines), uncounted=True)
    assert [str(job.gpu_count) for job in jobs] == ["?", "?"]
    assert [(job.gpus, job.gpus_exact) for job in jobs] == [(0, False)] * 2
    past_job = job_of_accounting([{"type": "cpu", "name": "", "count": 4}])
    assert (past_job.gpus, past_job.gpus_exact) == (0, False)
    kept = past_jobs.settled(past_jobs.newest([past_job]), uncounted=True)
    assert [job.gpus_exact for job in kept.jobs] == [False]


def test_accounting_that_counts_gpus_reports_none() -> None:
    lines = past_line(COUNTED, 1) + past_line(UNCOUNTED, 2)
    counted = gpus_settled(parse_history(lines), uncounted=True)
    assert [str(job.gpu_count) for job in counted] == ["2", "0"]
    alone = gpus_settled(parse_history(past_line(UNCOUNTED, 2)), uncounted=False)
    assert [str(job.gpu_count) for job in alone] == ["0"]  # a cluster without GPUs
    gpu = [{"type": "gres", "name": "gpu", "count": 1}]
    both = past_jobs.newest([job_of_accounting(gpu), job_of_accounting([], 2)])
    assert [(j.gpus, j.gpus_exact) for j in past_jobs.settled(both, uncounted=True).jobs] == [
        (0, True),
        (1, True),
    ]


def job_of_accounting(tres: list[dict[str, Any]], number: int = 1) -> Job:
    record = {"job_id": number, "state": {"current": ["COMPLETED"]}, "tres": {"allocated": tres}}
    return past_job(record, 42)


@pytest.mark.parametrize(
    ("text", "named", "gpus"),
    [
        ("gpu", True, (1, "")),
        ("gpu:2", True, (2, "")),
        ("gres/gpu:h200=4", True, (4, "h200")),
        ("gpu:h200", True, (1, "h200")),
        ("shard:2", True, None),
        ("gpu:1,gpu:2", True, None),
        ("h200:2", False, (2, "h200")),
        ("2", False, (2, "")),
        ("h200", False, None),
    ],
)
def test_what_an_option_asks_for(text: str, named: bool, gpus: tuple[int, str] | None) -> None:
    assert asked(text, named=named) == gpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("(null)", []),
        ("gpu", [("gpu", "", 1)]),
        ("GPU:h200:8(S:0-1),shard:16", [("gpu", "h200", 8), ("shard", "", 16)]),
        ("gpu:no_consume:2k,lic(CNT:4)", [("gpu", "", 2048), ("lic", "", 4)]),
    ],
)
def test_each_resource_of_a_list(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert gres_of(text) == expected
