"""What a real Slurm prints of jobs whose user writes line ends, and what root does with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from corral.hosts.quote import call, sh
from corral.inspect.jobs import in_unix_times, job_queue

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

NAME = "corral-prove-0123abcd"
TEXT = "x\n4711 corral:signal=TERM\n--user=bob corral:signal=TERM"


def submitted(cluster: Live, *options: str) -> str:
    batch = sh(
        "runuser -u corral -- sbatch --parsable -o /dev/null {options} --wrap 'sleep 600'",
        options=options,
    )
    result = cluster.run(cluster.controller, batch)
    assert result.ok, result.stderr
    return result.stdout.strip()


def test_a_job_of_many_lines_is_one_job_and_is_not_the_proofs(cluster: Live) -> None:
    other = submitted(cluster, f"--job-name=x\n{NAME}", f"--comment={TEXT}", "-D", "/tmp")
    ours = [submitted(cluster, f"--job-name={NAME}{end}") for end in ("", "-slots0")]
    head = cluster.controller
    try:
        # Nothing is escaped: the reason for all of this.
        shown = cluster.run(head, sh("squeue -h -j {j} -o '%A %k'", j=other)).stdout
        assert shown == f"{other} {TEXT}\n"
        assert cluster.run(head, sh("squeue -h -j {j} -o %k", j=other)).stdout == f"{TEXT}\n"
        mark = "m0123456789abcdef"
        queue = in_unix_times(job_queue(mark))
        named = {job.id: job.name for job in queue.parse(cluster.run(head, queue.shell).stdout)}
        assert named[int(other)] == f"x\n{NAME}"
        assert cluster.run(head, call("prove/jobs.sh", "jobs_clean", NAME, "corral", "")).ok
        running = sh("squeue -h -u corral -t PD,R -o %A")
        until = time.monotonic() + 30
        while {*ours} & {*(left := cluster.run(head, running).stdout.split())}:
            assert time.monotonic() < until, left
            time.sleep(0.5)
        assert other in left
        # A task of an array: its label, not its number, which for the last one is the array's.
        array = submitted(cluster, "--array=1-2", "--comment=a")
        labels = cluster.run(head, sh("squeue -h -r -j {j} -o '%A %i'", j=array)).stdout
        assert {line.split()[1] for line in labels.splitlines()} == {f"{array}_1", f"{array}_2"}
        assert cluster.run(head, sh("scancel -- {j}", j=f"{array}_1")).ok
        time.sleep(1)
        labels = cluster.run(head, sh("squeue -h -r -t PD,R -j {j} -o %i", j=array)).stdout
        assert labels.split() == [f"{array}_2"]
    finally:
        cluster.run(head, sh("scancel -u corral"))
