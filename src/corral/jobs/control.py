"""Jobs after their submission: follow, wait, state, logs, cancel, list."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from corral.errors import BAD_JSON, Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call, sh
from corral.hosts.transport import check
from corral.inspect.jobs import (
    UNIX_TIMES,
    gpu_seconds,
    gpus_of_jobs,
    job_history,
    job_queue,
    jobs_use,
)
from corral.inspect.question import answer_to, inquiry
from corral.jobs.follow import (
    Live,
    Outcome,
    RankLine,
    Reader,
    as_user,
    watch_script,
)
from corral.jobs.handle import JobHandle
from corral.jobs.upload.user_folder import JOBS, not_ours
from corral.jobs.usage import EndedUse
from corral.slurm.job_use import JobUse
from corral.slurm.records import Job, gpus_settled
from corral.slurm.tres import Gpus
from corral.spec.models import ClusterSpec
from corral.state.storage.job_folders import TOP

FOR_EVER: Final = 365 * 86400.0
# The owner comes from Slurm: a link of another user's under this number leads nowhere. What is
# there is read with the owner's rights.
_MOVED_S: Final = 600.0
"""The least change of a pending job's expected start that is reported."""

_KNOWN_AFTER: Final = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 1.6)
"""Seconds before each question to accounting, until it knows that a job has ended."""
BROKEN_S: Final = 60.0
"""Seconds for which a broken connection is tried again."""


async def follow(
    fleet: Fleet,
    job: JobHandle,
    *,
    on_line: Callable[[RankLine], None],
    emit: Emit = ignore,
    quiet: bool = False,
    on_live: Callable[[Live], None] = lambda _: None,
) -> Outcome:
    """Show a job until it ends: its lines as they come, its states, why it waits.

    One script on the controller does the watching; a broken connection is made again and goes on
    where it was. Cancelling this coroutine leaves the job alone.

    Args:
        fleet: the cluster's machines.
        job: the job.
        on_line: called with each line.
        emit: called with a JOB event at each change of state, with a NOTE when Slurm is silent.
        quiet: no lines, only states.
        on_live: called with progress bars and with what the job uses.

    Raises:
        CorralError: NOT_FOUND, no such job; UNREACHABLE, the controller stays away.
    """
    states, notes = _state_events(job, emit), _notes(job, emit)
    reader = Reader(job, _mark(), on_line, states, notes, on_live)
    since: float | None = None
    while True:
        script = watch_script(
            job.ref, job.folder, mark=reader.mark, offsets=reader.offsets, quiet=quiet
        )
        read = dict(reader.offsets)
        try:
            result = await fleet.run(
                job.controller,
                as_user(job.user, script),
                timeout=FOR_EVER,
                on_line=reader.feed,
            )
        except CorralError as error:
            if error.code is not Code.UNREACHABLE:
                raise
            since = time.monotonic() if since is None or reader.offsets != read else since
            if time.monotonic() - since > BROKEN_S:
                raise
            _notes(job, emit)(f"the connection to {job.controller} broke, trying again")
            await asyncio.sleep(1)
            continue
        check(result, f"watching job {job.ref}", hint=f"is {job.folder} still there?")
        return reader.outcome()


async def wait(
    fleet: Fleet, job: JobHandle, *, emit: Emit = ignore, timeout: float | None = None
) -> Outcome:
    """Wait until a job ends.

    Raises:
        CorralError: TIMED_OUT, it has not ended in time (and goes on); see ``follow``.
    """
    try:
        async with asyncio.timeout(timeout):
            return await follow(fleet, job, on_line=_drop, emit=emit, quiet=True)
    except TimeoutError as error:
        raise CorralError(
            Code.TIMED_OUT,
            f"job {job.id} has not ended within {timeout:g} s",
            hint=f"it keeps running; corral logs --follow {job.id} shows it",
        ) from error


async def state(fleet: Fleet, job: JobHandle) -> Outcome:
    """How a job stands now: from the controller, or from accounting once that has forgotten it.

    Raises:
        CorralError: NOT_FOUND, no such job.
    """
    return await _once(fleet, job, _drop, quiet=True)


async def logs(
    fleet: Fleet, job: JobHandle, *, limit: int = 1 << 20
) -> tuple[tuple[RankLine, ...], Outcome]:
    """What a job printed so far, the failed rank's lines first, and how it stands.

    Args:
        fleet: the cluster's machines.
        job: the job.
        limit: bytes of each log at most: its end.

    Raises:
        CorralError: NOT_FOUND, no such job, or none that Corral submitted.
    """
    if not job.folder:
        raise CorralError(
            Code.NOT_FOUND,
            f"job {job.id} was not submitted by Corral: its output is where its script put it",
            hint=f"scontrol show job {job.id} names the file after StdOut=",
        )
    lines: list[RankLine] = []
    outcome = await _once(fleet, job, lines.append, limit=limit)
    return tuple(lines), outcome


async def used(
    fleet: Fleet, job: JobHandle, *, cluster: str = "", prometheus: int | None = 0
) -> EndedUse | None:
    """What an ended job used of what it was given; None while accounting does not know its end.

    slurmctld sends a job's end to accounting after the ends of its steps, within some seconds.

    Args:
        fleet: the cluster's machines.
        job: the job.
        cluster: name of the cluster.
        prometheus: port of the controller's Prometheus, which knows GPUs; 0: there is none;
            None: whether there is one is unknown.

    Raises:
        CorralError: UNREACHABLE, the controller stays away.
    """
    history, use = job_history(_mark(), f"--jobs={job.ref}"), jobs_use(job.ref)
    asked = inquiry((history, use), before=UNIX_TIMES)
    what = f"asking what job {job.ref} used"
    for pause in _KNOWN_AFTER:
        await asyncio.sleep(pause)
        result = await fleet.run(job.controller, asked.script, timeout=60)
        sections = asked.read(check(result, what).stdout)
        answers = sections.require(asked.names, job.controller, what)
        record = next((r for r in reversed(history.read(answers)) if r.label == job.ref), None)
        if record is not None and record.ended:
            break
    else:
        return None
    busy = None
    if prometheus and record.gpus:
        question = gpu_seconds(record, cluster, prometheus)
        busy = await answer_to(fleet, job.controller, question, what, timeout=60)
    measured = use.read(answers).get(record.id, JobUse())
    return EndedUse(record, measured, busy, gpus_asked=prometheus is not None)


async def cancel(fleet: Fleet, job: JobHandle) -> Outcome:
    """End a job and give its state as it was then; one that has ended stays as it is.

    Raises:
        CorralError: NOT_FOUND, no such job; SLURM_REFUSED.
    """
    before = await state(fleet, job)
    if before.state.ended:
        return before
    result = await fleet.run(job.controller, sh("scancel {id}", id=job.ref), timeout=60)
    if not result.ok:
        raise CorralError(
            Code.SLURM_REFUSED,
            f"Slurm did not cancel job {job.ref}",
            node=job.controller,
            command=f"scancel {job.ref}",
            status=result.status,
            tail=result.tail,
        )
    return await state(fleet, job)


async def list_jobs(
    fleet: Fleet, controller: str, *, all: bool = False, days: int = 7, gpus: bool = True
) -> tuple[Job, ...]:
    """Pending and running jobs, newest first; with ``all`` also those of the last days that ended.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        all: jobs of the last ``days`` too.
        days: how many.
        gpus: the cluster has GPUs that accounting may not count, as of ``gpus_settled``.

    Raises:
        CorralError: COMMAND_FAILED, slurmctld does not answer.
    """
    mark = _mark()
    queue = job_queue(mark, *(["--states=all"] if all else []))
    history = job_history(mark, "--allusers", f"--starttime=now-{days}days").only(when=all)
    asked = inquiry((queue, history), before=UNIX_TIMES)
    result = await fleet.run(controller, asked.script, timeout=60)
    what, hint = "asking Slurm for its jobs", "is slurmctld up? see corral status"
    sections = asked.read(check(result, what, hint=hint).stdout)
    sections.succeeded(queue.name, controller, what, hint=hint, stderr=result.stderr)
    answers = sections.require(asked.names, controller, what)
    jobs = {job.label: job for job in gpus_settled(history.read(answers), uncounted=gpus)}
    for job in queue.read(answers):
        # What ended is known better by accounting, which keeps its exit code.
        known = jobs.get(job.label)
        if known is None or not (known.ended and job.ended):
            jobs[job.label] = job
    return tuple(sorted(jobs.values(), key=lambda job: job.id, reverse=True))


async def gpus_by_job(fleet: Fleet, controller: str, *, tracked: bool) -> dict[int, Gpus]:
    """GPUs of the jobs that slurmctld knows, by Slurm's number.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        tracked: Slurm counts GPUs among the resources of jobs, as it does with accounting; else
            only its JSON has them.

    Raises:
        CorralError: COMMAND_FAILED, slurmctld does not answer.
    """
    return await answer_to(
        fleet,
        controller,
        gpus_of_jobs(tracked=tracked),
        "asking Slurm for its jobs' GPUs",
        timeout=60,
        hint="is slurmctld up? see corral status",
    )


async def find(
    fleet: Fleet, controller: str, spec: ClusterSpec, job_id: int, *, files: bool = True
) -> JobHandle:
    """The handle of a job known by its number only.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        spec: the cluster.
        job_id: its number.
        files: its ranks, parts or files are asked for; without them Slurm's record will do where
            the description that Corral wrote is damaged.

    Raises:
        CorralError: NOT_FOUND, neither Slurm nor the shared storage knows it; PARSE_FAILED, its
            description is there and cannot be read.
    """
    for storage in spec.storage:
        script = call("jobs/user.sh", "job_find", job_id, storage.mount, TOP, JOBS)
        result = await fleet.run(controller, script, timeout=60)
        if (taken := not_ours(result)) is not None:
            raise taken
        try:
            handle = _handle(result.stdout, job_id, controller)
        except CorralError:
            if files:
                raise
            continue
        if handle is not None:
            return handle
    for info in await list_jobs(fleet, controller, all=True):
        if info.id == job_id:
            return JobHandle(job_id, info.name, info.user, "", 0, controller)
    raise CorralError(
        Code.NOT_FOUND, f"no job {job_id}", hint="corral jobs --all lists those of the last days"
    )


def _handle(text: str, job_id: int, controller: str) -> JobHandle | None:
    """The job that Corral submitted; None for any other, and one whose folder was removed.

    Raises:
        CorralError: PARSE_FAILED, its description is there and cannot be read.
    """
    user, _, rest = text.partition("\n")
    folder, _, body = rest.partition("\n")
    if not body.strip():
        return None
    try:
        about = json.loads(body)
        logs = int(about["logs"])
        array = tuple(int(number) for number in about.get("array", ()))
    except BAD_JSON as error:
        raise CorralError(
            Code.PARSE_FAILED,
            f"how many ranks and parts job {job_id} has is unknown: {folder}/job.json is damaged",
            node=controller,
            tail=body[:200],
            hint=f"its output is in that folder, of {user}'s job; corral cancel {job_id} ends it",
        ) from error
    name = folder.rpartition("/")[2].split("-", 2)[-1].rpartition("-")[0]
    return JobHandle(job_id, name, user, folder, logs, controller, array)


def _mark() -> str:
    return f"m{secrets.token_hex(8)}"


async def _once(
    fleet: Fleet,
    job: JobHandle,
    on_line: Callable[[RankLine], None],
    *,
    quiet: bool = False,
    limit: int = 1 << 20,
) -> Outcome:
    reader = Reader(job, _mark(), on_line, _nothing, _drop)
    script = watch_script(
        job.ref, job.folder, mark=reader.mark, quiet=quiet, once=True, limit=limit
    )
    result = await fleet.run(
        job.controller, as_user(job.user, script), timeout=120, on_line=reader.feed
    )
    check(result, f"asking for job {job.ref}", hint=f"is {job.folder} still there?")
    return reader.outcome()


def _drop(line: object) -> None:
    """Forget a line."""


def _nothing(info: Job) -> None:
    """Forget a state."""


def _notes(job: JobHandle, emit: Emit) -> Callable[[str], None]:
    def note(text: str) -> None:
        emit(Event(Kind.NOTE, job.ref, message=text))

    return note


def _state_events(job: JobHandle, emit: Emit) -> Callable[[Job], None]:
    last, start = "", 0.0

    def report(info: Job) -> None:
        nonlocal last, start
        words = describe(info)
        # Slurm knows it some time after the submission (bf_interval, 30 s), and it moves all the
        # time as other jobs end.
        expected = info.start_at or 0.0 if info.waiting else 0.0
        moved = expected > 0 and abs(expected - start) > _MOVED_S
        if words != last or moved:
            text = f"{words}{_expected(info)}"
            emit(Event(Kind.JOB, job.ref, node=info.nodes, message=text))
            start = expected
        last = words

    return report


def describe(info: Job) -> str:
    """A job's state in words: ``waits: no free nodes``, ``runs on node[0-2]``."""
    if info.waiting:
        return f"waits: {info.why}" if info.why else "waits"
    where = f" on {info.nodes}" if info.nodes else ""
    return f"{info.state.lower().replace('_', ' ')}{where}"


def _expected(info: Job) -> str:
    """When a pending job should start, as Slurm sees it now; "" while it does not know."""
    if not info.waiting or info.start_at is None:
        return ""
    when = datetime.fromtimestamp(info.start_at).astimezone()
    soon = when.date() == datetime.now(UTC).astimezone().date()
    return f"; expected to start at {when:%H:%M:%S}" if soon else f"; expected to start {when:%c}"
