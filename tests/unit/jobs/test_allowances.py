"""A job before it is submitted, compared with the limits of user, account and QOS."""

from __future__ import annotations

from typing import Any

import pytest

from corral.jobs.allowances import (
    GPU,
    SUBMITTED,
    WALL,
    Allowance,
    against_allowances,
    amount,
    beyond,
    demand_of,
    demand_of_options,
    waits_for,
    why_never,
)
from corral.jobs.model import JobSpec
from corral.slurm.records import Job, Node
from corral.slurm.states.nodes import NodeState

ALICE = Allowance("user alice in account vision", "GrpTRES", GPU, 1, 0)
VISION = Allowance("account vision", "GrpTRES", GPU, 8, 7)
NODES = tuple(
    Node(f"n{i}", NodeState.parse("IDLE"), cpus=8, memory=16384, gres="gpu:h200:4") for i in (1, 2)
)


def test_what_alone_is_beyond_a_limit_is_refused_at_its_field() -> None:
    wants = demand_of(JobSpec(command=("true",), gpus_per_node=2), NODES)
    (refusal,) = against_allowances(wants, [VISION, ALICE])
    assert refusal.field == "gpus_per_node"
    assert refusal.reason == (
        "2 GPUs asked for, user alice in account vision may have 1 GPU (GrpTRES)"
    )
    assert not against_allowances({GPU: 1}, [VISION, ALICE])
    tighter = Allowance("QOS high", "MaxTRESPerJob", GPU, 0)
    assert beyond({GPU: 2}, [ALICE, tighter]) == [tighter]


def test_what_is_beyond_the_rest_of_a_limit_waits() -> None:
    words = "2 GPUs of account vision are free (7 of 8 GPUs in use, GrpTRES)"
    assert waits_for({GPU: 2}, [VISION]) == words
    assert not waits_for({GPU: 1}, [VISION, ALICE])
    assert not waits_for({GPU: 9}, [VISION]), "that is never"
    unknown = Allowance("account vision", "GrpTRES", GPU, 8, None)
    assert not waits_for({GPU: 8}, [unknown])
    jobs = Allowance("user alice in account vision", "MaxJobs", "jobs", 2, 2)
    assert "1 running job of user alice" in waits_for({"jobs": 1}, [jobs])
    assert not waits_for({SUBMITTED: 3}, [Allowance("a", "MaxSubmitJobs", SUBMITTED, 4, 3)])


@pytest.mark.parametrize(
    ("options", "gpus", "cpus", "nodes"),
    [
        ({"gpus-per-node": "h200:2", "nodes": "2"}, 4, 2, 2),
        ({"gres": "gpu:slot:1"}, 1, 1, 1),
        ({"gpus": "3", "ntasks": "6", "cpus-per-task": "2"}, 3, 12, 1),
        ({"gpus-per-task": "1", "ntasks": "4"}, 4, 4, 1),
        ({"exclusive": "", "gpus-per-node": "1"}, 4, 8, 1),
        ({"exclusive": "user", "gpus-per-node": "1"}, 1, 1, 1),
        ({}, 0, 1, 1),
    ],
)
def test_what_a_script_asks_for_at_least(
    options: dict[str, str], gpus: int, cpus: int, nodes: int
) -> None:
    wants = demand_of_options(options, NODES)
    assert (wants[GPU], wants["cpu"], wants["node"]) == (gpus, cpus, nodes)


def test_time_memory_and_tasks_of_a_script() -> None:
    wants = demand_of_options({"time": "1:00:00", "mem": "2G", "array": "0-9%2"}, NODES)
    assert (wants[WALL], wants["mem"], wants[SUBMITTED]) == (3600, 2048, 10)


def test_an_exclusive_job_of_the_form_has_its_nodes_gpus() -> None:
    job = JobSpec(command=("true",), gpus_per_node=1, exclusive=True)
    assert demand_of(job, NODES)[GPU] == 4


@pytest.mark.parametrize(
    ("reason", "gpus", "never"),
    [("AssocGrpGRES", 2, True), ("AssocGrpGRES", 1, False), ("Resources", 2, False)],
)
def test_a_pending_job_that_alone_is_beyond_a_limit_cannot_start(
    reason: str, gpus: int, *, never: bool
) -> None:
    fields: dict[str, Any] = {"state": "PENDING", "reason": reason, "gpus": gpus}
    words = why_never(Job(id=5, label="5", **fields), [ALICE])
    assert bool(words) == never
    assert not never or words.startswith(
        "it asks for 2 GPUs, and user alice in account vision may have 1 GPU (GrpTRES): it cannot"
    )


@pytest.mark.parametrize(
    ("reason", "seen"),
    [
        ("AssocGrpGRES", "GPU"),
        ("QOSMaxGRESPerUser", "GPU"),
        ("AssocGrpCpuLimit", "CPU"),
        ("QOSMaxMemoryPerJob", "memory"),
        ("AssocMaxNodePerJobLimit", "nodes"),
        ("AssocMaxWallDurationPerJobLimit", "00:20:00"),
        ("AssocGrpJobsLimit", ""),
        ("AssocGrpCPUMinutesLimit", ""),
        ("AssocGrpWallLimit", ""),
    ],
)
def test_another_limit_than_that_of_slurms_reason_is_not_why(reason: str, seen: str) -> None:
    """Of five limits that the job exceeds it names that on what Slurm's reason is about."""
    limits = {GPU: 1, "cpu": 1, "mem": 1024, "node": 1, WALL: 1200}
    allowed = [Allowance("account vision", "a limit", what, most) for what, most in limits.items()]
    asked = "cpu=4,mem=8G,node=2,billing=4,gres/gpu=2"
    job = Job(5, "5", state="PENDING", reason=reason, gpus=2, limit=86400, tres_asked=asked)
    words = why_never(job, allowed)
    assert bool(words) == bool(seen)
    assert seen in words


def test_amounts_in_words() -> None:
    assert [amount("mem", 2048), amount("mem", 100), amount(WALL, 3600)] == [
        "2 GiB of memory",
        "100 MiB of memory",
        "01:00:00",
    ]
