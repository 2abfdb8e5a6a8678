"""Batch jobs that count as running and never began. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from corral.doctor.look import Told
from corral.doctor.model import Diagnosis
from corral.doctor.probes import Scene, found
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
    again; one that is back within half a minute hears of it from slurmd, and the job is
    requeued and held; later it hears nothing. So the log line alone is not proof. The extern
    step is there because of ``PrologFlags=Contain``, which limits by cgroup and
    pam_slurm_adopt need. The doctor does not requeue: the job is its user's.
    """
    for line in scene.lead.lines("batch"):
        fields = line.split("|")
        if len(fields) < _FIELDS:
            continue
        job, state, flag, host, used = fields[:_FIELDS]
        told = scene.told.get(host)
        if state != "R" or flag in ("0", "") or told is None or told.error is not None:
            continue
        evidence = _never_began(job, used, told)
        if evidence:
            yield found("F102", host, evidence, f"job {job}")


def _never_began(job: str, used: str, told: Told) -> str:
    steps = {kind for number, kind in _STEP.findall(told.text("steps")) if number == job}
    if steps != {"extern"}:
        return ""
    said = _UNCONFIRMED.format(job=job)
    lines = [line for line in told.log("slurmd").splitlines() if said in line.lower()]
    if lines:
        return lines[-1]
    with suppress(CorralError):
        if (seconds(used) or 0) >= BEGUN_S:
            return f"job {job} counts as running for {used}; {told.node} has {job}.extern alone"
    return ""
