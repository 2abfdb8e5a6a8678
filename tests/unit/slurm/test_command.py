"""Commands give records, of recorded answers of Slurm's JSON (slurmrestd prints the same)."""

from __future__ import annotations

import json
from pathlib import Path

from corral.slurm import command

RECORDED = Path(__file__).parents[2] / "recorded/rest/24.11/v0.0.42"


def recorded(what: str) -> str:
    return json.dumps(json.loads((RECORDED / f"{what}.json").read_text())["body"])


def test_nodes_and_jobs_are_tuples() -> None:
    """Of a list with a note next to it nobody can take the length."""
    nodes, jobs = command.NODES.parse(recorded("nodes")), command.RUNNING.parse(recorded("jobs"))
    assert isinstance(nodes, tuple) and isinstance(jobs, tuple)
    assert {node.name for node in nodes} >= {"node0"}
    assert len(jobs) == len(json.loads(recorded("jobs"))["jobs"])


def test_gpus_of_jobs() -> None:
    gpus = command.GPUS_OF_JOBS[False].parse(recorded("jobs"))
    assert set(gpus) <= {job.id for job in command.RUNNING.parse(recorded("jobs"))}
