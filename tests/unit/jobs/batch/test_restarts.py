"""Starting again: the batch script with requeue, run for real against a fake srun and scontrol."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.jobs.batch.script import Place, batch_script
from corral.jobs.model import JobSpec

# The ranks' srun runs the command; the probe's srun reports whether its node answers.
SRUN = """#!/bin/sh
for word; do case $word in --nodelist=*) node=${word#--nodelist=} ;; esac; done
case "$*" in *--overlap*) [ ! -e "$FAKE/dead-$node" ]; exit $? ;; esac
while [ "$1" != sh ]; do shift; done
SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=1 \
  SLURM_STEP_TASKS_PER_NODE=1 SLURM_NNODES=1 exec "$@"
"""
SCONTROL = """#!/bin/sh
case "$*" in
  "show hostnames node[0-1]") printf 'node0\\nnode1\\n' ;;
  "--oneliner show node node0") echo "NodeName=node0 NodeAddr=10.0.0.5 Port=0" ;;
  "requeue 7") echo requeue >> "$FAKE/calls"; kill "$PPID" ;;
  *) exit 97 ;;
esac
"""
SINFO = """#!/bin/sh
echo "node0 none"
if [ -e "$FAKE/taken" ]; then echo "node1 corral: the cloud takes this machine back"; fi
"""


class Machine:
    """A folder in which one job's batch script runs."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.work, self.fake = folder / "bin", folder / "job", folder / "fake"
        for made in (self.bin, self.work, self.fake):
            made.mkdir()
        for name, text in (
            ("srun", SRUN),
            ("scontrol", SCONTROL),
            ("ip", "#!/bin/sh\n"),
            ("sinfo", SINFO),
        ):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def begin(self, program: str) -> subprocess.Popen[str]:
        file = self.work / "program"
        file.write_text(f"#!/bin/sh\n{program}\n")
        file.chmod(0o755)
        job = JobSpec(script="program", nodes=2, requeue=True)
        log = (self.work / "batch.log").open("w")
        return subprocess.Popen(
            ["/bin/sh", "-c", batch_script(job, Place(str(self.work), str(file), "main"))],
            env={
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "FAKE": str(self.fake),
                "SLURM_JOB_ID": "7",
                "SLURM_JOB_NODELIST": "node[0-1]",
                "SLURM_JOB_NUM_NODES": "2",
            },
            stdout=log,
            stderr=log,
            text=True,
        )

    def run(self, program: str) -> int:
        return self.begin(program).wait(timeout=60)

    @property
    def requeued(self) -> bool:
        return (self.fake / "calls").exists()

    @property
    def ended(self) -> str:
        file = self.work / "ended"
        return file.read_text().strip() if file.exists() else ""

    def log(self) -> str:
        return (self.work / "batch.log").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def awaited(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it never came")


def test_a_good_end_is_an_end(machine: Machine) -> None:
    assert machine.run("exit 0") == 0
    assert (machine.requeued, machine.ended) == (False, "0")


def test_an_error_of_the_script_is_an_end(machine: Machine) -> None:
    assert machine.run("exit 3") == 3
    assert (machine.requeued, machine.ended) == (False, "3")


def test_a_node_that_does_not_answer_starts_the_job_again(machine: Machine) -> None:
    (machine.fake / "dead-node1").touch()
    machine.run("exit 3")
    assert (machine.requeued, machine.ended) == (True, "")
    assert "no answer from node1: the job starts again" in machine.log()


def test_a_script_that_asks_for_it_is_started_again(machine: Machine) -> None:
    machine.run("exit 75")
    assert machine.requeued
    assert "it has more to do" in machine.log()


def test_without_progress_it_is_not_started_again(machine: Machine) -> None:
    folder = machine.work / "checkpoints"
    folder.mkdir()
    (folder / "000000000004.sha256").touch()
    assert machine.run("exit 75") == 75
    assert not machine.requeued
    assert "saved no checkpoint after 000000000004" in machine.log()
    machine.run('touch "$CORRAL_CHECKPOINTS/000000000005.sha256"; exit 75')
    assert machine.requeued


@pytest.mark.parametrize("ends", ["exit 75", "exit 3", "kill -USR1 $$"])
def test_a_job_whose_node_is_taken_back_starts_again_though_it_saved_nothing(
    ends: str, machine: Machine
) -> None:
    """Twice within an interval: the second time no checkpoint is new, by nobody's fault."""
    folder = machine.work / "checkpoints"
    folder.mkdir()
    (folder / "000000000005.sha256").touch()
    assert machine.run("exit 75") == 75
    assert not machine.requeued
    (machine.fake / "taken").touch()
    machine.run(ends)
    assert machine.requeued
    assert "its cloud takes back node1: the job starts again" in machine.log()


@pytest.mark.parametrize(
    ("handler", "again"),
    [
        ("trap 'exit 75' USR1", True),
        ("trap 'exit 0' USR1", False),  # it came to its end just then
        (":", True),  # dies of the signal
    ],
)
def test_the_signal_before_the_time_limit(machine: Machine, handler: str, again: bool) -> None:
    ready = machine.work / "ready"
    job = machine.begin(f"{handler}\n: > {ready}\nwhile :; do sleep 0.05; done")
    awaited(ready.exists)
    job.send_signal(signal.SIGUSR1)
    job.wait(timeout=60)
    assert machine.requeued is again
    assert "the time limit is near" in machine.log()
    assert machine.ended == ("" if again else "0")
