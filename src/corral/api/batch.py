"""Use cases of jobs: run, submit, list, logs, cancel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corral.apply.session import Session
from corral.errors import CorralError
from corral.events import Emit, ignore
from corral.jobs import control
from corral.jobs import submit as submission
from corral.jobs.model import JobHandle, JobSpec, parse_job
from corral.jobs.reading import Outcome as JobOutcome
from corral.jobs.reading import RankLine
from corral.slurm.states.jobs import JobInfo
from corral.spec.models import ClusterSpec

__all__ = ["JobHandle", "JobInfo", "JobOutcome", "JobSpec", "RankLine"]

OnLine = Callable[[RankLine], None]


def job_spec(fields: Mapping[str, Any]) -> JobSpec:
    """A JobSpec from loose fields, as a command line gives them.

    Raises:
        CorralError: USAGE, with every fault in one message.
    """
    return parse_job(fields)


def job_script(spec: ClusterSpec, job: JobSpec) -> str:
    """The batch script that would be submitted, as far as the cluster file alone tells it.

    Raises:
        CorralError: USAGE, the job cannot run as asked.
    """
    return str(submission.dry_run(job, spec))


async def submit(spec: ClusterSpec, job: JobSpec) -> JobHandle:
    """Hand a job to Slurm and leave it alone.

    Raises:
        CorralError: USAGE or NOT_FOUND, it cannot run as asked; SLURM_REFUSED.
    """
    async with await Session.open(spec) as session:
        session.require_running()
        return await submission.submit(session.fleet, session.controller, spec, job)


async def run(
    spec: ClusterSpec,
    job: JobSpec,
    emit: Emit = ignore,
    *,
    on_line: OnLine = lambda _: None,
    on_submit: Callable[[JobHandle], None] = lambda _: None,
) -> JobOutcome:
    """Submit a job and follow it to its end. Cancelling this coroutine leaves the job alone.

    Args:
        spec: the cluster.
        job: the job.
        emit: told of each change of the job's state.
        on_line: called with each line that a rank prints, as it comes.
        on_submit: called once Slurm has the job.

    Raises:
        CorralError: as ``submit``; UNREACHABLE, the controller stays away.
    """
    async with await Session.open(spec) as session:
        session.require_running()
        handle = await submission.submit(session.fleet, session.controller, spec, job)
        on_submit(handle)
        return await control.follow(session.fleet, handle, on_line=on_line, emit=emit)


async def jobs(spec: ClusterSpec, *, ended: bool = False) -> tuple[JobInfo, ...]:
    """Jobs that wait or run, newest first; with ``ended`` also those of the last days.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; COMMAND_FAILED, Slurm does not answer.
    """
    async with await Session.open(spec) as session:
        session.require_running()
        return await control.list_jobs(session.fleet, session.controller, all=ended)


async def logs(
    spec: ClusterSpec,
    job_id: int,
    emit: Emit = ignore,
    *,
    on_line: OnLine,
    follow: bool = False,
) -> JobOutcome:
    """What a job printed, and how it stands; with ``follow`` until it has ended.

    Raises:
        CorralError: NOT_FOUND, no such job, or none that Corral submitted.
    """
    async with await Session.open(spec) as session:
        session.require_running()
        handle = await control.find(session.fleet, session.controller, spec, job_id)
        if follow and handle.folder:
            return await control.follow(session.fleet, handle, on_line=on_line, emit=emit)
        lines, outcome = await control.logs(session.fleet, handle)
    for line in lines:
        on_line(line)
    return outcome


async def cancel(spec: ClusterSpec, job_ids: Sequence[int]) -> dict[int, JobOutcome | CorralError]:
    """End jobs; gives how each stood then, or why it could not be done.

    Raises:
        CorralError: the cluster is not up.
    """
    found: dict[int, JobOutcome | CorralError] = {}
    async with await Session.open(spec) as session:
        session.require_running()
        for job_id in dict.fromkeys(job_ids):
            try:
                handle = await control.find(session.fleet, session.controller, spec, job_id)
                found[job_id] = await control.cancel(session.fleet, handle)
            except CorralError as error:
                found[job_id] = error
    return found
