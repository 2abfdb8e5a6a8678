"""Use cases of a job's page: script, environment, tracked run, with its owner's rights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from corral.api.sync import reached
from corral.errors import Code, CorralError
from corral.hosts.quote import call, sh
from corral.hosts.transport import check
from corral.inspect.jobs import LONGEST_SCRIPT, job_script
from corral.jobs import submit as submission
from corral.jobs.follow import as_user
from corral.jobs.handle import JobHandle
from corral.jobs.model import JobSpec
from corral.jobs.profile.profiler import FOLDER
from corral.jobs.submit import ExpectedStart
from corral.jobs.upload.user_folder import JOBS, not_ours, roof_script
from corral.roles.services.mlflow import uri
from corral.slurm.rest.write import Submission
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import expand

_PROGRAM: Final = "jobs/user.sh"


async def job_text(spec: ClusterSpec, user: str, job_id: int, *, here: bool = False) -> str:
    """The batch script of a job, from slurmctld, else from accounting.

    Raises:
        CorralError: NOT_FOUND, Slurm does not show it to this user, or does not have it;
            TIMED_OUT, what may have it does not answer.
    """
    async with reached(spec, here=here) as (fleet, controller):
        script = as_user(user, job_script(job_id, LONGEST_SCRIPT).shell)
        result = await fleet.run(controller, script, timeout=90)
    if not result.ok:
        raise CorralError(
            Code.TIMED_OUT,
            f"the script of job {job_id} is unknown: slurmctld or accounting does not answer",
            tail=result.tail,
            hint="try again once Slurm answers; corral doctor shows why it does not",
        )
    if not result.stdout.strip():
        raise CorralError(
            Code.NOT_FOUND,
            f"Slurm has no script of job {job_id}",
            tail=result.tail,
            hint="only batch jobs have one; slurmctld keeps it for MinJobAge, accounting with "
            "AccountingStoreFlags=job_script",
        )
    return result.stdout


async def requeue_job(spec: ClusterSpec, user: str, job: str, *, here: bool = False) -> None:
    """Put a job back in the queue, as its owner: slurmrestd has no such request.

    Args:
        spec: the cluster.
        user: owner of the job.
        job: 12, or 12_3 for a task of an array: the number of an array requeues all of it.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: SLURM_REFUSED.
    """
    async with reached(spec, here=here) as (fleet, controller):
        script = as_user(user, sh("scontrol requeue {job}", job=job))
        result = await fleet.run(controller, script, timeout=30)
    if not result.ok:
        raise CorralError(
            Code.SLURM_REFUSED,
            f"Slurm did not requeue job {job}",
            tail=result.tail,
            hint="it was submitted with --no-requeue, or has not begun",
        )


async def submit_here(spec: ClusterSpec, job: JobSpec) -> JobHandle:
    """Submit a job from a process on the controller that runs as the job's user.

    Raises:
        CorralError: USAGE or NOT_FOUND, it cannot run as asked; SLURM_REFUSED.
    """
    async with reached(spec, here=True) as (fleet, controller):
        return await submission.submit(fleet, controller, spec, job, user_known=True)


async def expected_here(spec: ClusterSpec, job: JobSpec) -> ExpectedStart:
    """When Slurm would start a job, from a process on the controller that runs as its user.

    Raises:
        CorralError: USAGE or NOT_FOUND, it cannot run as asked; SLURM_REFUSED.
    """
    async with reached(spec, here=True) as (fleet, controller):
        return await submission.expected_start(fleet, controller, spec, job, user_known=True)


async def script_expected(
    spec: ClusterSpec, user: str, job: Submission, *, here: bool = False
) -> ExpectedStart:
    """When Slurm would start a batch script of a user; nothing is submitted.

    Raises:
        CorralError: SLURM_REFUSED, with what it refuses at sbatch's options; UNREACHABLE.
    """
    async with reached(spec, here=here) as (fleet, controller):
        return await submission.expected_of_script(fleet, controller, user, job)


async def submit_script(
    spec: ClusterSpec, user: str, job: Submission, *, here: bool = False
) -> int:
    """Submit a batch script by sbatch as a user; returns the job's number.

    Slurm's REST API lacks fields for some options of sbatch: ``--export``, ``--signal``.

    Args:
        spec: the cluster.
        user: whose job it is.
        job: the script.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: SLURM_REFUSED, with what it refuses at sbatch's options; UNREACHABLE;
            PARSE_FAILED, sbatch printed no number.
    """
    async with reached(spec, here=here) as (fleet, controller):
        return await submission.send_script(fleet, controller, user, job)


async def has_person(spec: ClusterSpec, user: str, *, here: bool = False) -> bool:
    """Whether the controller knows a user, of a directory too; root is none.

    Args:
        spec: the cluster.
        user: a name, as Slurm has it.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE.
    """
    async with reached(spec, here=here) as (fleet, controller):
        result = await fleet.run(controller, sh("id -u -- {user}", user=user), timeout=30)
    return result.ok and result.stdout.strip() not in ("", "0")


async def make_room(spec: ClusterSpec, user: str) -> None:
    """As root on the controller: the user's own folder for jobs on the shared storage.

    Raises:
        CorralError: COMMAND_FAILED, somebody planted something in its place.
    """
    if not spec.storage:
        return
    async with reached(spec, here=True) as (fleet, controller):
        made = await fleet.run(controller, roof_script(spec.storage[0].mount, JOBS, user))
        if (taken := not_ours(made)) is not None:
            raise taken
        check(made, f"making the jobs' folder of {user}")


HIDDEN: Final = "(hidden)"
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|_KEY$|JWT")


@dataclass(frozen=True, slots=True)
class Extras:
    """What else there is of a job.

    Attributes:
        environment: of its first process while it runs, secrets hidden; sorted by name.
        run: MLflow's run, "" for none.
        tracking: address of the tracking server, "" for none.
        recordings: files that its profiled ranks wrote.
    """

    environment: tuple[tuple[str, str], ...] = ()
    run: str = ""
    tracking: str = ""
    recordings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Environment, run, tracking and recordings."""
        return {
            "environment": [list(pair) for pair in self.environment],
            "run": self.run,
            "tracking": self.tracking,
            "recordings": list(self.recordings),
        }


async def job_extras(
    spec: ClusterSpec,
    user: str,
    job_id: int,
    *,
    output: str,
    nodes: str,
    running: bool,
    here: bool = False,
) -> Extras:
    """Look, with the job's owner's rights.

    Args:
        spec: the cluster.
        user: owner of the job.
        job_id: its number.
        output: its output file: next to it is what ``corral run`` keeps of a job.
        nodes: hostlist of its nodes.
        running: it runs, so that it has an environment.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE.
    """
    folder = output.removesuffix("/batch.log") if output.endswith("/batch.log") else "/nonexistent"
    script = call(_PROGRAM, "job_extras", folder, FOLDER, job_id, "yes" if running else "no")
    async with reached(spec, here=here) as (fleet, controller):
        first = next(iter(expand(nodes)), "") if nodes else ""
        node = first if first in fleet.nodes else controller
        answer = await fleet.run(node, as_user(user, script), timeout=30)
    return extras_of(answer.stdout, uri(spec))


def extras_of(text: str, tracking: str) -> Extras:
    """What the script printed."""
    lines = [line.partition(" ") for line in text.splitlines()]
    run = next((value for word, _, value in lines if word == "run"), "")
    run = run if re.fullmatch(r"[0-9a-f]{32}", run) else ""
    variables = dict(
        value.split("=", 1) for word, _, value in lines if word == "env" and "=" in value
    )
    return Extras(
        tuple(sorted((name, _shown(name, value)) for name, value in variables.items())),
        run,
        tracking if run else "",
        tuple(value for word, _, value in lines if word == "recording"),
    )


def _shown(name: str, value: str) -> str:
    """A value as a page may show it: other people see screens."""
    if _SECRET.search(name.upper()):
        return HIDDEN
    return re.sub(r"(://[^:/@\s]+:)[^@/\s]+@", rf"\1{HIDDEN}@", value)
