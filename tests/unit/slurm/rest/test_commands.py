"""Slurm's commands instead of slurmrestd: what they print, and what is asked of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.roles.services.metrics import SLURM_PATHS
from corral.slurm.rest import commands, read, write
from corral.slurm.rest.json_values import records

REST = Path(__file__).parents[3] / "recorded" / "rest"


@pytest.mark.parametrize(("release", "api"), [("22.05", 38), ("24.11", 42), ("26.05", 45)])
def test_commands_print_what_slurmrestd_answers(release: str, api: int) -> None:
    """The recorded answers, as the newest data parser of each release makes them."""
    text = json.dumps(json.loads((REST / release / f"v0.0.{api}/nodes.json").read_text())["body"])
    body = commands.body_of(text)
    assert commands.version_of(body) == api
    nodes = [read.node(record, api) for record in records(body["nodes"])]
    assert nodes


def test_what_22_05_prints() -> None:
    """Recorded from Debian 12's own commands."""
    old = REST.parent / "commands" / "22.05"
    assert commands.too_old((old / "scontrol.txt").read_text())
    body = commands.body_of((old / "sinfo.json").read_text())
    assert commands.version_of(body) == 38
    nodes = {n.name: n for n in (read.node(record, 38) for record in records(body["nodes"]))}
    assert nodes["node0"].gpus_used == 2
    assert str(nodes["node2"].state) == "IDLE+DRAIN"
    queue = commands.body_of((old / "squeue.json").read_text())
    jobs = {job.id: job for job in (read.job(record, 38) for record in records(queue["jobs"]))}
    assert jobs[2].name == "<script>alert(1)</script>"
    assert (jobs[1].state, jobs[1].gpus, jobs[1].limit) == ("RUNNING", 1, 86400)


def test_what_26_05_prints() -> None:
    """Recorded from Debian testing's own commands."""
    new = REST.parent / "commands" / "26.05"
    bodies = {key: commands.body_of((new / f"{key}.json").read_text()) for key in commands.COMMANDS}
    assert {commands.version_of(body) for body in bodies.values()} == {45}
    jobs = [read.job(record, 45) for record in records(bodies["jobs"]["jobs"])]
    assert {"COMPLETED", "FAILED", "RUNNING", "PENDING"} <= {job.state for job in jobs}
    partitions = [
        read.partition(record, 45) for record in records(bodies["partitions"]["partitions"])
    ]
    assert {partition.name for partition in partitions} == {"main", "long"}


def test_slurms_own_metrics_are_where_prometheus_asks() -> None:
    """Recorded from slurmctld 26.05.5 with MetricsType=metrics/openmetrics."""
    endpoints = REST.parent / "metrics" / "26.05"
    assert {path.stem for path in endpoints.iterdir()} == set(SLURM_PATHS)
    assert 'slurm_node_cpus{node="node0"} 4' in (endpoints / "nodes.txt").read_text()


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "slurm_load_jobs error: down"])
def test_what_is_no_answer(text: str) -> None:
    with pytest.raises(CorralError) as refused:
        commands.body_of(text)
    assert refused.value.code is Code.PARSE_FAILED


def test_slurms_own_words() -> None:
    with pytest.raises(CorralError, match="Unable to contact"):
        commands.body_of('{"errors": [{"error": "Unable to contact slurm controller"}]}')


def test_requests_as_commands() -> None:
    limit = write.limit_body(90, commands.SPEAKS)
    asked = {
        ("DELETE", "job/7"): None,
        ("POST", "job/7"): write.hold_body(held=True),
        ("PUT", "job/7"): limit,
        ("POST", "node/n1"): write.drain_body("fan; rm -rf /"),
    }
    made = [commands.command_of(method, path, body) for (method, path), body in asked.items()]
    assert made == [
        ("scancel", "7"),
        ("scontrol", "hold", "7"),
        ("scontrol", "update", "JobId=7", "TimeLimit=90"),
        ("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=fan; rm -rf /"),
    ]
    assert commands.command_of("POST", "node/n1", write.resume_body())[-1] == "State=RESUME"
    with pytest.raises(CorralError, match="no command"):
        commands.command_of("POST", "reservation/x", {})


def test_a_script_as_sbatch() -> None:
    script = "#!/bin/sh\n#SBATCH --nodes=2 --wait\n#SBATCH -Q\n#SBATCH --export=NONE\n#SBATCH -z\n"
    submission = write.Submission(script, "a b", "/shared", partition="main", stdout="/shared/o")
    assert commands.sbatch_of(submission)[2:] == (
        "--job-name=a b",
        "--chdir=/shared",
        "--partition=main",
        "--output=/shared/o",
    )
    # --wait ends with the job, and -Q hides its number.
    text = "#!/bin/sh\n#SBATCH --nodes=2\n##SBATCH -Q\n#SBATCH --export=NONE\n#SBATCH -z\n"
    assert commands.stdin_of(submission) == text


@pytest.mark.parametrize(
    ("printed", "number"),
    [("12\n", 12), ("12;lab\n", 12), ("a note of the site\n12\n", 12), ("", None), ("x", None)],
)
def test_the_number_that_sbatch_printed(printed: str, number: int | None) -> None:
    assert commands.number_of(printed) == number
