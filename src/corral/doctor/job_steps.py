"""Running jobs compared with slurmstepd processes; batch jobs that never began. Pure.

Slurm and the nodes are asked twice, the second time after all answers of the first: a job that
starts or ends meanwhile differs between the two and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.doctor.machine_report import MachineReport
from corral.doctor.model import Diagnosis
from corral.doctor.probes import Scene, finding
from corral.durations import clock
from corral.errors import CorralError
from corral.inspect.jobs import BATCH, JOBS, STEPS
from corral.inspect.slurm import SLURM_CONF
from corral.slurm.records import Job
from corral.slurm.steps import BATCH_STEP, EXTERN
from corral.spec.slurm.hostlist import NODES_AT_MOST, expand

SETTLED_S: Final = 120
"""Seconds after which a job's or a step's processes are there, and after which they are gone."""
AGAIN: Final = "again"
"""What the sections of the second query end with."""


def job_steps(scene: Scene) -> Iterator[Diagnosis]:
    """F200 and F201: a running job without a step on its node; a step whose job is over."""
    for node in scene.machines.values():
        for job, lines in lost(scene, node).items():
            yield finding("F200", node.node, lines, f"job {job}")
        for job, lines in left(scene, node).items():
            yield finding("F201", node.node, lines, f"job {job}")


def doubtful(scene: Scene) -> tuple[str, ...]:
    """Nodes to be asked again, the controller among them; none where all agrees."""
    nodes = [t.node for t in scene.answered if _lost(scene, t, "") or _left(scene, t, "")]
    return tuple(dict.fromkeys((scene.controller, *nodes))) if nodes else ()


def lost(scene: Scene, machine: MachineReport) -> dict[str, str]:
    """Jobs that Slurm reports as running on the node in both polls, without a step there."""
    first, then = _lost(scene, machine, ""), _lost(scene, machine, AGAIN)
    return {job: text for job, text in first.items() if job in then}


def left(scene: Scene, machine: MachineReport) -> dict[str, str]:
    """Jobs that Slurm knows in neither poll, with a step on the node in both."""
    first, then = _left(scene, machine, ""), _left(scene, machine, AGAIN)
    return {job: text for job, text in first.items() if job in then}


def _lost(scene: Scene, machine: MachineReport, poll: str) -> dict[str, str]:
    jobs, steps = _jobs(scene.lead, poll), _steps(machine, poll)
    # Only with an extern step does each node of a job have a process of it.
    if not jobs or steps is None or not _contained(scene):
        return {}
    return {
        number: f"squeue: job {number} is {job.state} for {job.elapsed} s on {machine.node}; "
        f"no slurmstepd of it runs there"
        for number, (job, nodes) in jobs.items()
        if job.has_steps
        and (job.elapsed or 0) >= SETTLED_S
        and machine.node in nodes
        and number not in steps
    }


def _left(scene: Scene, machine: MachineReport, poll: str) -> dict[str, str]:
    jobs, steps = _jobs(scene.lead, poll), _steps(machine, poll)
    if jobs is None or steps is None:
        return {}
    return {
        job: f"slurmstepd of job {job} runs for {age} s; squeue knows no such job"
        for job, age in steps.items()
        if age >= SETTLED_S and job not in jobs
    }


def _jobs(lead: MachineReport, poll: str) -> dict[str, tuple[Job, list[str]]] | None:
    """Jobs that hold nodes, and those nodes; None where squeue's answer is incomplete."""
    jobs = lead.get(JOBS.again(poll))
    if lead.error is not None or jobs is None:
        return None
    try:
        return {str(job.id): (job, _expanded(job.nodes)) for job in jobs}
    except CorralError:
        return None


def _expanded(nodes: str) -> list[str]:
    return expand(nodes)[:NODES_AT_MOST] if nodes else []


def _steps(machine: MachineReport, poll: str) -> dict[str, int] | None:
    """Jobs with a step on a node, and the age of the oldest; None where ps gave no answer."""
    listed = machine.get(STEPS.again(poll))
    if machine.error is not None or listed is None or not listed.complete:
        return None
    ages: dict[str, int] = {}
    for step in listed.steps:
        ages[str(step.job)] = max(ages.get(str(step.job), 0), step.age)
    return ages


def _contained(scene: Scene) -> bool:
    conf = scene.lead.get(SLURM_CONF)
    return "contain" in conf.words("PrologFlags") if conf else False


BEGUN_S: Final = 60
"""Seconds after which a batch script's process is there, on a busy machine too."""
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
    for job, host in scene.lead.get(BATCH) or ():
        machine = scene.machines.get(host)
        if not job.running or machine is None or machine.error is not None:
            continue
        evidence = _never_began(job, machine)
        if evidence:
            yield finding("F102", host, evidence, f"job {job.id}")


def _never_began(job: Job, machine: MachineReport) -> str:
    listed = machine.get(STEPS)
    steps = {step.name for step in listed.steps if step.job == job.id} if listed else set[str]()
    if steps & {BATCH_STEP, EXTERN} != {EXTERN}:
        return ""
    message = _UNCONFIRMED.format(job=job.id)
    lines = [line for line in machine.log("slurmd").splitlines() if message in line.lower()]
    if lines:
        return lines[-1]
    used = job.elapsed or 0
    if used < BEGUN_S:
        return ""
    running = f"job {job.id} counts as running for {clock(used)}"
    return f"{running}; {machine.node} has {job.id}.{EXTERN} alone"
