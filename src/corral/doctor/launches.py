"""Batch jobs that count as running and never began. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from corral.doctor.answers import MachineAnswers
from corral.doctor.model import Diagnosis
from corral.doctor.probes import Scene, finding
from corral.errors import CorralError
from corral.slurm.duration import seconds

BEGUN_S: Final = 60
"""Seconds after which a batch script's process is there, on a busy machine too."""
_STEP: Final = re.compile(r"\[(?:\w*?)(\d+)\.(batch|extern)\]")
_FIELDS: Final = 5
_UNCONFIRMED: Final = "could not confirm batch launch for job {job},"


def launches(scene: Scene) -> Iterator[Diagnosis]:
    """F102: a job counts as running and its batch script was never started.

    Its extern step alone is on its first node. Slurm itself finds lost batch jobs only where no
    step of the job is left (BatchStartTimeout), so it waits for the job's time limit.

    Tried by stopping slurmd, submitting, killing slurmctld and continuing slurmd (24.11.5): slurmd
    writes "Could not confirm batch launch for job N, aborting request" (``_rpc_batch_job``)
    and does not start the script. A slurmctld that had not saved the job as running starts it
    again; one that is back within half a minute gets slurmd's report, and the job is
    requeued and held; later it gets none. So the log line alone is not proof. The extern
    step is there because of ``PrologFlags=Contain``, which limits by cgroup and
    pam_slurm_adopt need. The doctor does not requeue: the job is its user's.
    """
    for line in scene.lead.lines("batch"):
        fields = line.split("|")
        if len(fields) < _FIELDS:
            continue
        job, state, flag, host, used = fields[:_FIELDS]
        machine = scene.machines.get(host)
        if state != "R" or flag in ("0", "") or machine is None or machine.error is not None:
            continue
        evidence = _never_began(job, used, machine)
        if evidence:
            yield finding("F102", host, evidence, f"job {job}")


def _never_began(job: str, used: str, machine: MachineAnswers) -> str:
    steps = {kind for number, kind in _STEP.findall(machine.text("steps")) if number == job}
    if steps != {"extern"}:
        return ""
    message = _UNCONFIRMED.format(job=job)
    lines = [line for line in machine.log("slurmd").splitlines() if message in line.lower()]
    if lines:
        return lines[-1]
    with suppress(CorralError):
        if (seconds(used) or 0) >= BEGUN_S:
            return f"job {job} counts as running for {used}; {machine.node} has {job}.extern alone"
    return ""
