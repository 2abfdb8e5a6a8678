"""Use cases of jobs that are in Slurm already: listed, shown, cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.jobs import arrays, control
from corral.jobs.arrays import ArrayOutcome
from corral.jobs.follow import Live, Outcome, RankLine
from corral.jobs.handle import JobHandle
from corral.roles.machine.people import PROOF
from corral.runtime.tasks import concurrently
from corral.slurm.records import Job
from corral.spec.client import by_rest
from corral.spec.models import ClusterSpec
from corral.spec.nodes import users_of

JobInfo = Job  # corral.Job is the handle of a submitted one
JobOutcome = Outcome
OnLine = Callable[[RankLine], None]
OnLive = Callable[[Live], None]
JobRef = int | str
"""A job's number, or ``12_3`` for a part of an array."""


async def jobs(
    spec: ClusterSpec, emit: Emit = ignore, *, ended: bool = False, checks: bool = False
) -> tuple[JobInfo, ...]:
    """Pending and running jobs, newest first; with ``ended`` also those of the last days.

    Args:
        spec: the cluster.
        emit: receives how many jobs of Slurm's answer cannot be read, if any.
        ended: also those of the last days that have ended.
        checks: also Corral's own, of the proof.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; COMMAND_FAILED, Slurm does not answer.
    """
    if by_rest(spec):
        from corral.api.workload.rest import rest_client, rest_jobs  # noqa: PLC0415  # HTTP

        listing = rest_jobs(rest_client(spec), ended=ended, emit=emit)
        return await _listed(listing, checks=checks)
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        fleet, controller = session.fleet, session.controller
        gpus = any(group.gpu_kinds for group in spec.groups)
        tracked = spec.slurm.accounting
        history = control.list_jobs(fleet, controller, all=ended, gpus=gpus and not tracked)
        listing = _listed(history, checks=checks)
        if not gpus:
            return await listing
        listed, held = await concurrently(
            listing, control.gpus_by_job(fleet, controller, tracked=tracked)
        )
    return tuple(
        replace(job, gpus=held[job.id].count, gpus_exact=held[job.id].exact)
        if job.id in held
        else job
        for job in listed
    )


async def _listed(listing: Awaitable[tuple[JobInfo, ...]], *, checks: bool) -> tuple[JobInfo, ...]:
    return tuple(job for job in await listing if checks or job.user != PROOF)


async def logs(
    spec: ClusterSpec,
    job_id: JobRef,
    emit: Emit = ignore,
    *,
    on_line: OnLine,
    follow: bool = False,
    on_live: OnLive = lambda _: None,
) -> JobOutcome | ArrayOutcome:
    """What a job printed, and how it stands; with ``follow`` until it has ended.

    An array itself prints nothing: its outcome holds the parts, each with its last line.

    Raises:
        CorralError: NOT_FOUND, no such job, or none that Corral submitted; FORBIDDEN, it is not
            the job of a profile's user.
    """
    if by_rest(spec):
        from corral.api.workload.rest import refuse_logs, rest_client  # noqa: PLC0415  # HTTP

        raise await refuse_logs(rest_client(spec), job_id)
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        fleet = session.fleet
        handle = own_job(session, await handle_of(session, job_id))
        if handle.array:
            if follow:
                return await arrays.follow_array(fleet, handle, emit)
            return await arrays.array_state(fleet, handle)
        if follow and handle.folder:
            return await control.follow(fleet, handle, on_line=on_line, emit=emit, on_live=on_live)
        lines, outcome = await control.logs(fleet, handle)
    for line in lines:
        on_line(line)
    return outcome


async def job_state(
    spec: ClusterSpec, job_id: JobRef, *, use: bool = False
) -> JobOutcome | ArrayOutcome:
    """How a job stands now.

    Args:
        spec: the cluster.
        job_id: the job.
        use: also what it used of what it was given, where it has ended and accounting knows that.

    Raises:
        CorralError: NOT_FOUND, no such job.
    """
    if by_rest(spec):
        from corral.api.workload.rest import rest_client, rest_state  # noqa: PLC0415  # HTTP

        return await rest_state(rest_client(spec), job_id)
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        handle = await handle_of(session, job_id)
        if handle.array:
            return await arrays.array_state(session.fleet, handle)
        outcome = await control.state(session.fleet, handle)
        return await with_use(session, handle, outcome) if use else outcome


async def with_use(session: Connection, handle: JobHandle, outcome: JobOutcome) -> JobOutcome:
    """The outcome with what the job used of what it was given, where accounting knows that."""
    spec = session.spec
    if not outcome.state.ended or not spec.slurm.accounting:
        return outcome
    # A client file does not state whether there are metrics.
    port = 0 if session.administers else None
    if session.administers and spec.services.metrics:
        from corral.roles.services.metrics import PROMETHEUS  # noqa: PLC0415  # all roles

        port = PROMETHEUS
    use = await control.used(session.fleet, handle, cluster=spec.name, prometheus=port)
    return replace(outcome, use=use)


async def cancel(
    spec: ClusterSpec, job_ids: Sequence[JobRef]
) -> dict[JobRef, JobOutcome | CorralError]:
    """Cancel jobs; returns the state of each, or why it could not be cancelled.

    Raises:
        CorralError: the cluster is not up.
    """
    outcomes: dict[JobRef, JobOutcome | CorralError] = {}
    if by_rest(spec):
        from corral.api.workload.rest import rest_cancel, rest_client  # noqa: PLC0415  # HTTP

        client = rest_client(spec)
        for job_id in dict.fromkeys(job_ids):
            try:
                outcomes[job_id] = await rest_cancel(client, job_id)
            except CorralError as error:
                outcomes[job_id] = error
        return outcomes
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        for job_id in dict.fromkeys(job_ids):
            try:
                handle = await handle_of(session, job_id, files=False)
                outcomes[job_id] = await control.cancel(session.fleet, handle)
            except CorralError as error:
                outcomes[job_id] = error
    return outcomes


def own_job(session: Connection, handle: JobHandle) -> JobHandle:
    """The handle of a job whose files may be read.

    Raises:
        CorralError: FORBIDDEN, it is not the job of a profile's user.
    """
    user = users_of(session.spec)[0].name
    if session.administers or handle.user == user:
        return handle
    raise CorralError(
        Code.FORBIDDEN,
        f"job {handle.ref} is {handle.user}'s: {user} may not read its files",
        hint=f"ask {handle.user} or an administrator",
    )


async def handle_of(session: Connection, ref: JobRef, *, files: bool = True) -> JobHandle:
    """The handle of a job of an open cluster, or of a part of an array.

    Args:
        session: the cluster.
        ref: 12, or 12_3.
        files: as of ``control.find``.

    Raises:
        CorralError: USAGE, no such number can be; NOT_FOUND; PARSE_FAILED, as ``control.find``.
    """
    number, _, task = str(ref).partition("_")
    if not number.isdecimal() or (task and not task.isdecimal()):
        raise CorralError(
            Code.USAGE, f"{ref!r} is not a job number", hint="12, or 12_3 for a part of an array"
        )
    fleet, controller, spec = session.fleet, session.controller, session.spec
    handle = await control.find(fleet, controller, spec, int(number), files=files)
    return handle.part(int(task)) if task else handle
