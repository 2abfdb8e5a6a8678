"""Batch scripts of jobs that are tracked or profiled, run for real against fakes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.jobs.batch.script import Place, batch_script
from corral.jobs.batch.tracking import UNTRACKED, Tracking, tracking_of
from corral.jobs.model import JobSpec, parse_job
from corral.jobs.profile import profiler
from corral.spec.models import ClusterSpec
from corral.spec.nodes import digest
from corral.spec.sections.services import Services
from tests.unit.jobs.batch.test_script import Machine

PLACE = Place("/shared/j", "/shared/j/code/train.py", "main")
TRACKING = Tracking("http://node0:5000", "it's $HOME", {"a": "b"}, {"nodes": "2"})
JOBS = {
    "tracked": (JobSpec(script="train.py", nodes=2), replace(PLACE, tracking=TRACKING)),
    "traced": (JobSpec(script="train.py", nodes=2, profile="torch"), PLACE),
    "nsys": (JobSpec(script="train.py", nodes=2, profile="nsys"), PLACE),
}
PYTHON = """#!/bin/sh
case "$*" in
  "-m corral.track begin "*) [ -z "$AWAY" ] || { echo away >&2; exit 1; }; echo run1 ;;
  "-m corral.track "*) echo "$3 $4 in $MLFLOW_RUN_ID" >> "$CALLS" ;;
  *) exit 96 ;;
esac
"""
PROGRAM = """#!/bin/sh
[ "$RANK" = 0 ] && echo "run ${MLFLOW_RUN_ID-none} at $MLFLOW_TRACKING_URI in \
$MLFLOW_EXPERIMENT_NAME" >> "$CALLS"
exit ${STATUS-0}
"""


@pytest.mark.parametrize("name", JOBS)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    job, place = JOBS[name]
    own = [
        *(getattr(place.tracking, part) for part in ("begin", "sample", "end")),
        profiler.words(job.profile, python=True),
        profiler.rank_setup(job.profile),
        profiler.after(job.profile),
    ]
    golden(f"jobs/{name}.sh", "\n".join(filter(None, own)) + "\n")
    text = batch_script(job, place)
    assert all(part in text for part in own)
    for shell in ("dash", "bash"):
        subprocess.run([shell, "-n"], input=text, text=True, check=True, capture_output=True)


def test_a_job_that_is_neither_has_not_a_word_of_it() -> None:
    text = batch_script(JobSpec(script="train.py"), PLACE)
    assert "mlflow" not in text.lower()
    assert "nsys" not in text
    assert UNTRACKED.files == {}


@pytest.fixture
def tracked(tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    machine = Machine(tmp_path)
    (machine.bin / "python3").write_text(PYTHON)
    (machine.bin / "python3").chmod(0o755)
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    calls = tmp_path / "calls"

    def run(**env: str) -> tuple[int, list[str]]:
        calls.write_text("")
        place = Place(str(machine.work), str(program), "main", tracking=TRACKING)
        text = batch_script(JobSpec(script=str(program), nodes=1), place)
        with (machine.work / "batch.log").open("w") as log:
            done = subprocess.run(
                ["/bin/sh", "-c", text],
                env={
                    "PATH": f"{machine.bin}:{os.environ['PATH']}",
                    "ADDRESS": "10.0.0.5",
                    "SLURM_JOB_ID": "7",
                    "SLURM_JOB_NODELIST": "node[0-9]",
                    "SLURM_JOB_NUM_NODES": "1",
                    "CALLS": str(calls),
                    **env,
                },
                stdout=log,
                stderr=log,
                check=False,
                timeout=30,
            )
        lines = [line for line in calls.read_text().splitlines() if not line.startswith("sample")]
        return done.returncode, lines

    return run


Run = Callable[..., tuple[int, list[str]]]


def test_the_run_is_there_before_the_rank_and_ends_with_its_status(tracked: Run) -> None:
    assert tracked() == (0, ["run run1 at http://node0:5000 in it's $HOME", "end 0 in run1"])
    status, lines = tracked(STATUS="3")
    assert status == 3
    assert lines[-1] == "end 3 in run1"


def test_a_server_that_is_away_changes_nothing_else(tracked: Run) -> None:
    assert tracked(AWAY="1") == (0, ["run none at http://node0:5000 in it's $HOME"])


def test_what_the_user_sets_wins_and_an_empty_value_switches_it_off(tracked: Run) -> None:
    named = {"MLFLOW_TRACKING_URI": "http://mine", "MLFLOW_EXPERIMENT_NAME": "other"}
    assert tracked(**named)[1][0] == "run run1 at http://mine in other"
    assert tracked(MLFLOW_TRACKING_URI="") == (0, ["run none at  in it's $HOME"])


def test_what_a_run_carries() -> None:
    spec = ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "lab",
            "groups": [{"name": "a", "provider": "embedded", "nodes": "n[0-1]"}],
            "services": {"mlflow": True},
        }
    )
    job = JobSpec(script="train.py", nodes=2, args=("--lr", "1"))
    tracking = tracking_of(job, spec, {"mlflow.source.git.commit": "c0ffee"})
    assert (tracking.uri, tracking.experiment) == ("http://n0:5000", "train")
    assert tracking.tags["corral.spec_digest"] == digest(spec)
    assert tracking.tags["mlflow.source.git.commit"] == "c0ffee"
    assert tracking.tags["mlflow.user"] == "corral"
    assert tracking.params["corral.args"] == "--lr 1"
    assert set(tracking.files) == {"track.json"}
    plain = spec.model_copy(update={"services": Services()})
    assert tracking_of(job, plain) is UNTRACKED


def test_torch_records_python_scripts_only() -> None:
    with pytest.raises(CorralError, match="nsys records any program"):
        parse_job({"script": "run.sh", "profile": "torch"})
    with pytest.raises(CorralError):
        parse_job({"script": "train.py", "profile": "gdb"})
    assert b"register_optimizer_step_post_hook" in profiler.files("torch")["lib/traced.py"]


def test_torchrun_starts_the_recorder_of_each_rank() -> None:
    job = JobSpec(script="train.py", nodes=2, gpus_per_node=2, launcher="torchrun")
    text = batch_script(job.model_copy(update={"profile": "torch"}), PLACE)
    python = 'python3 "$corral_job/lib/corral/lines.py"'
    assert f'rank --no-python {python} "$corral_job/lib/traced.py" /shared/j/code/train.py' in text
    text = batch_script(job.model_copy(update={"profile": "nsys"}), PLACE)
    assert "rank --no-python nsys profile " in text
    assert f'rank-%q{{RANK}}" {python} /shared/j/code/train.py' in text
