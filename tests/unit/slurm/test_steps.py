"""A job's own line, its steps, where batch scripts run: as scontrol, ps and squeue print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.slurm.records import Job
from corral.slurm.states.jobs import ExitCode
from corral.slurm.steps import Step, readable_batch, readable_steps
from corral.slurm.text import parse_job

RECORDED = Path(__file__).parents[2] / "recorded" / "gpus"
SHOWN = sorted(RECORDED.glob("*/tracked/scontrol.txt"))


def test_steps() -> None:
    text = """\
    559 slurmstepd: [16.extern]
 558 slurmstepd: [16.batch]
7 slurmstepd: [lab-2.417.0]
a slurmstepd: [18.batch]
9 vi slurmstepd: [19.batch]
@last"""
    assert readable_steps(text) == (
        Step(16, "extern", 559),
        Step(16, "batch", 558),
        Step(417, "0", 7),
    )


def test_batch_scripts_and_their_nodes() -> None:
    text = """\
16|RUNNING|1|node1|9:19|
17|RUNNING|0|node1|9:19|
18|CONFIGURING|1|node2|0:00|
19|RUNNING|1|node2|never|
20|RUNNING|1|node2
slurm_load_jobs error: x
"""
    assert [(job.id, job.state, job.elapsed, node) for job, node in readable_batch(text)] == [
        (16, "RUNNING", 559, "node1"),
        (18, "CONFIGURING", 0, "node2"),
    ]


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.parts[-3])
def test_a_jobs_own_line(file: Path) -> None:
    lines = file.read_text().splitlines()
    job = parse_job(f"{lines[0]}\n{lines[1]}\n")
    assert job is not None
    assert (job.id, job.label, job.state, job.reason) == (1, "1", "RUNNING", "")
    assert (job.nodes, job.exit_code) == ("node0", None)
    assert job.tres.startswith("cpu=2,mem=20M,node=1")
    assert (job.elapsed or 0) > 0
    waiting = parse_job(lines[1])
    assert waiting is not None
    assert (waiting.state, waiting.reason, waiting.nodes) == ("PENDING", "BeginTime", "")


def test_a_job_that_ended_and_what_is_none() -> None:
    line = (
        "JobId=44 ArrayJobId=42 ArrayTaskId=3 JobName=a b UserId=bob(2000) JobState=FAILED "
        "Reason=NonZeroExitCode ExitCode=3:0 RunTime=00:00:05 NodeList=node[0-1] Comment=x"
    )
    job = parse_job(line)
    assert job == Job(
        *(44, "42_3"),
        state="FAILED",
        reason="NonZeroExitCode",
        nodes="node[0-1]",
        elapsed=5,
        exit_status=3,
    )
    assert job.exit_code == ExitCode(3)
    for text in ("", "slurm_load_jobs error: Invalid job id specified", "JobId=x JobState=RUNNING"):
        assert parse_job(text) is None
