"""Use cases of jobs over slurmrestd, for a profile of ``corral login --rest``."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from corral.api.config.profiles import token_of
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.jobs.follow import Outcome
from corral.jobs.handle import JobHandle
from corral.jobs.model import JobSpec
from corral.jobs.rest.client import RestClient, require_valid
from corral.jobs.rest.submission import submission_of
from corral.slurm.array_tasks import array_label, task_ref
from corral.slurm.records import Job, gpus_settled
from corral.slurm.rest.read import unreadable
from corral.slurm.states.jobs import ExitCode, JobState, has_ended
from corral.spec.client import ClientSpec

DAYS: Final = 7
POLL_S: Final = 3.0
PATIENCE_S: Final = 600.0
"""Seconds for which failed polls of a job are tried again: a restart of slurmrestd, of slurmctld or
of the proxy in front of them."""
_PASSING: Final = (Code.UNREACHABLE, Code.SLURM_REFUSED, Code.PARSE_FAILED)
_REF: Final = re.compile(r"([1-9][0-9]{0,9})(?:_([0-9]{1,9}))?")


def rest_client(spec: ClientSpec) -> RestClient:
    """The client of a profile that reaches its cluster by slurmrestd (``by_rest``).

    Raises:
        CorralError: LOGIN_REFUSED, its token has expired, is another user's or is not there.
    """
    token = token_of(spec)
    require_valid(token, spec.profile.user)
    return RestClient(spec.profile.rest, spec.profile.user, token)


async def rest_jobs(client: RestClient, *, ended: bool, emit: Emit = ignore) -> tuple[Job, ...]:
    """Pending and running jobs, newest first; with ``ended`` also those of the last days.

    Args:
        client: whom to ask.
        ended: also those of the last days.
        emit: receives how many jobs cannot be read.

    Raises:
        CorralError: LOGIN_REFUSED; UNREACHABLE; PARSE_FAILED.
    """
    queue = [job for job in await client.jobs() if ended or not has_ended(job.state)]
    listed = {job.label: job for job in await _past(client)} if ended else {}
    for job in queue:
        # What ended is known better by accounting; a job that was requeued has ended there before.
        known = listed.get(job.label)
        if known is None or not (has_ended(known.state) and has_ended(job.state)):
            listed[job.label] = job
    for note in client.notes:
        emit(Event(Kind.NOTE, "jobs", message=note))
    return tuple(sorted(listed.values(), key=lambda job: -job.id))


async def rest_state(client: RestClient, ref: int | str) -> Outcome:
    """How a job stands now; an array as the first of its tasks that has not ended, or failed.

    Raises:
        CorralError: USAGE, no number of a job; NOT_FOUND, no such job.
    """
    return _outcome(await _known(client, ref), ref)


async def rest_cancel(client: RestClient, ref: int | str) -> Outcome:
    """End a job, all of an array for its number, or one task (12_3); what has ended stays.

    Raises:
        CorralError: NOT_FOUND; FORBIDDEN, another user's; SLURM_REFUSED.
    """
    job = await _known(client, ref)
    if not has_ended(job.state):
        number, task = _numbers(ref)
        name = task_ref(number, task)
        await client.cancel(name, job.id if job.label == name else number)
        job = await _known(client, ref)
    return _outcome(job, ref)


async def rest_submit(spec: ClientSpec, client: RestClient, job: JobSpec) -> JobHandle:
    """Submit a job and return at once.

    Raises:
        CorralError: USAGE, it needs files; SPEC_INVALID; SLURM_REFUSED.
    """
    if job.user not in (None, client.user):
        raise CorralError(
            Code.FORBIDDEN,
            f"profile {spec.profile.name} submits as {client.user}, not as {job.user}",
            hint="leave out the user",
        )
    text = await asyncio.to_thread(_script_of, job)
    made = submission_of(job, text, _folder(spec), await client.version())
    number = await client.submit(made)
    return JobHandle(number, made.name, client.user, "", 0, client.address)


async def rest_run(
    spec: ClientSpec,
    client: RestClient,
    job: JobSpec,
    emit: Emit,
    on_submit: Callable[[JobHandle], None],
) -> Outcome:
    """Submit a job and wait for its end; its output stays where Slurm writes it.

    Raises:
        CorralError: as ``rest_submit``; LOGIN_REFUSED, the token has expired while the job runs;
            UNREACHABLE, SLURM_REFUSED or PARSE_FAILED, no good response for ``PATIENCE_S``.
    """
    handle = await rest_submit(spec, client, job)
    on_submit(handle)
    state = ""
    while True:
        seen = await _patiently(client, handle, emit)
        if seen.state != state:
            state = seen.state
            emit(Event(Kind.JOB, handle.ref, message=_words(seen)))
        if has_ended(state):
            emit(Event(Kind.NOTE, handle.ref, message=unread(seen)))
            return _outcome(seen, handle.id)
        await asyncio.sleep(POLL_S)


async def _patiently(client: RestClient, handle: JobHandle, emit: Emit) -> Job:
    """The job, after failed polls if need be; the error reports that the job runs on.

    Raises:
        CorralError: LOGIN_REFUSED; UNREACHABLE, SLURM_REFUSED or PARSE_FAILED, for ``PATIENCE_S``.
    """
    since: float | None = None
    while True:
        try:
            return await _known(client, handle.id)
        except CorralError as error:
            now = time.monotonic()
            passing = error.code in _PASSING
            if not passing or (since is not None and now - since > PATIENCE_S):
                if error.code is not Code.NOT_FOUND:
                    error.message += f"; job {handle.ref} is not cancelled and runs on"
                raise
            if since is None:
                since = now
                emit(Event(Kind.NOTE, handle.ref, message=f"{error.message}; trying again"))
        await asyncio.sleep(POLL_S)


async def refuse_logs(client: RestClient, ref: int | str) -> CorralError:
    """Why slurmrestd has no output of a job, with the file that has it.

    Raises:
        CorralError: NOT_FOUND, no such job.
    """
    job = await _known(client, ref)
    return CorralError(
        Code.USAGE,
        unread(job),
        hint="read the file where that folder is mounted, or log in by ssh: corral login USER@HOST",
    )


def unread(job: Job) -> str:
    """Where the output of a job is, which slurmrestd does not read."""
    where = f"{job.stdout} on the cluster" if job.stdout else "a file on the cluster"
    return f"the output of job {job.label} is in {where}: slurmrestd reads no files"


def _words(job: Job) -> str:
    where = f" on {job.nodes}" if job.nodes else ""
    return f"{job.state}{where}" + (f" ({job.reason})" if job.reason else "")


def _script_of(job: JobSpec) -> str | None:
    path = Path(job.script)
    if not job.script or (path.is_absolute() and not path.is_file()):
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"no script {job.script} that can be read as text",
            tail=str(error),
            hint="name a batch script of this machine, or a command: corral run -- COMMAND",
        ) from error


def _folder(spec: ClientSpec) -> str:
    """Where jobs run: the user's folder of jobs, where the profile knows shared storage."""
    user = spec.profile.user
    mount = next((storage.mount for storage in spec.storage), "")
    return f"{mount}/corral/jobs/{user}" if mount else f"/home/{user}"


async def _known(client: RestClient, ref: int | str) -> Job:
    """The job, out of slurmctld or accounting.

    Raises:
        CorralError: USAGE, no number of a job; NOT_FOUND; PARSE_FAILED, some jobs of accounting
            cannot be read, of which it may be one.
    """
    number, task = _numbers(ref)
    chosen = _chosen(await client.records(number), number, task)
    if not chosen:
        chosen = _chosen(await _past(client), number, task)
    if not chosen and client.notes:
        raise unreadable(f"job {ref} is not among what can be read; {'; '.join(client.notes)}")
    if not chosen:
        raise CorralError(
            Code.NOT_FOUND, f"Slurm knows no job {ref}", hint="corral jobs --all lists them"
        )
    live = next((job for job in chosen if not has_ended(job.state)), None)
    failed = (job for job in chosen if not JobState.read(job.state).good)
    return live or next(failed, chosen[0])


async def _past(client: RestClient) -> tuple[Job, ...]:
    """Jobs of the last days out of accounting; none where there is none."""
    try:
        return gpus_settled(await client.past(DAYS), uncounted=True)
    except CorralError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return ()


def _numbers(ref: int | str) -> tuple[int, int | None]:
    match = _REF.fullmatch(str(ref))
    if match is None:
        raise CorralError(
            Code.USAGE, f"{ref!r} is not a job number", hint="12, or 12_3 for a part of an array"
        )
    return int(match[1]), int(match[2]) if match[2] else None


def _chosen(jobs: Sequence[Job], number: int, task: int | None) -> list[Job]:
    """The records that a reference stands for: all of an array for its number.

    Tasks that have not begun share one record, and the array's number is also that of a task.
    """
    labels = [(job, array_label(job.label)) for job in jobs]
    array = [(job, label) for job, label in labels if label and label.array == number]
    if task is None:
        return [job for job, _ in array] or [job for job in jobs if job.id == number]
    begun = [job for job, label in array if label.task == task]
    return begun or [job for job, label in array if any(task in span for span in label.tasks.spans)]


def _outcome(job: Job, ref: int | str) -> Outcome:
    number, task = _numbers(ref)
    code = ExitCode(job.exit_status, job.exit_signal or 0) if job.exit_status is not None else None
    return Outcome(
        number,
        JobState.read(job.state),
        task=task,
        exit_code=code if has_ended(job.state) else None,
        reason=job.reason,
        nodes=job.nodes,
        seconds=job.elapsed or 0,
    )
