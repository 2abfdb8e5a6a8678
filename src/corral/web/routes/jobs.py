"""Jobs: list, one job, its log and script; submit, cancel, hold, release, requeue, limit.

Everything that changes a job is asked of slurmrestd with the user's own token, so that Slurm
decides. Where there is no accounting Slurm 24.11 to 26.05 stops answering when a user cancels
somebody else's job, so that what Slurm would refuse is refused here already.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from corral import api
from corral.errors import Code, CorralError
from corral.runtime.tasks import concurrently
from corral.slurm.array_tasks import array_label
from corral.slurm.records import Job
from corral.slurm.rest import write
from corral.web import schemas
from corral.web.openapi import file_of
from corral.web.routes.my_work import busy_gpus, why_pending
from corral.web.routes.view import packed_of
from corral.web.slurm.arrays import array_rows, array_tasks_of, page_of_groups
from corral.web.slurm.choices import filter_words
from corral.web.slurm.efficiency import DAY_S, seconds_of
from corral.web.slurm.response_cache import CachedResponse
from corral.web.slurm.search import ORDERS, SHOWN, ordered, parse
from corral.web.slurm.snapshot import job_fields, job_rows
from corral.web.state import (
    DIGITS,
    Changer,
    Here,
    State,
    Viewer,
    digits_alone,
    here_of,
    poller_for,
    poller_of,
    shared_by,
    state_of,
)
from corral.web.users.sessions import Session
from corral.web.users.user_commands import UserCommands

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
ROWS_LOOKED: Final = 20
"""Of a page of a list that are kept as new as a job's own page: each has its turn in two polls."""


def _job_number(value: object) -> object:
    label = array_label(value) if isinstance(value, str) else None
    if label is not None:
        raise ValueError(
            f"{value} is a task of array {label.array}, and has its own number: give that, as the "
            "array's page lists it"
        )
    return digits_alone(value)


JobId = Annotated[int, BeforeValidator(_job_number), Path(ge=1, le=0x7FFFFFFF)]
"""One job's number; ``2_9`` is not 29."""
LAST_KNOWN_S: Final = 3.0
"""How long slurmctld is waited for, for one job."""
SILENT_S: Final = 0.5
"""The same while it is known not to answer."""
ACCOUNTING_S: Final = 1.5
"""How long accounting is waited for, for a job that only it may have while slurmctld is silent."""
_DECIDED: Final = (Code.LOGIN_REFUSED, Code.FORBIDDEN)
"""Slurm has answered: the viewer may not see it."""
TASKS_S: Final = 5.0
"""How long accounting is waited for where slurmctld knows an array's other tasks."""
KEEP_TASKS_S: Final = 20.0
MOST_DAYS: Final = 30
"""How far back metrics are asked for how busy the GPUs of an ended job were."""


class Action(BaseModel):
    """What to do to a job."""

    model_config = ConfigDict(extra="forbid")

    do: Literal["cancel", "hold", "release", "requeue", "limit"]
    minutes: int | None = Field(
        default=None, ge=1, le=525_600, strict=True, description="With limit."
    )


@router.get("", response_model=schemas.Jobs)
async def jobs(  # noqa: PLR0917  # FastAPI calls it by name
    request: Request,
    session: Viewer,
    show: Literal["all", "running", "waiting", "ended"] = "all",
    q: Annotated[str, Query(max_length=300)] = "",
    by: Annotated[str, Query(max_length=20)] = "id",
    down: bool = True,
    limit: Annotated[int, DIGITS, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, DIGITS, Query(ge=0, le=10_000_000)] = 0,
    arrays: Annotated[bool, Query(description="An array is one row, with its counts.")] = False,
) -> Response:
    """One page of the jobs that slurmctld knows."""
    test = parse(q)
    if by not in ORDERS:
        ordered((), by, down=down)
    poller = poller_of(request, session)
    now = await poller.fresh()
    rows = state_of(request).listed

    def body() -> dict[str, Any]:
        chosen = [job for job in now.jobs.values() if SHOWN[show](job) and test(job)]
        listed = ordered(chosen, by, down=down)
        made: dict[str, Any] = {"jobs_rev": now.jobs_rev}
        made |= page_of(listed, offset, limit, arrays=arrays)
        several = made.get("arrays", {})
        rows.put(key, (row[0] for row in made["rows"] if str(row[0]) not in several))
        return made

    who = shared_by(state_of(request), session)
    key = f"jobs:{who}:{show}:{q}:{by}:{down}:{limit}:{offset}:{arrays}"
    reply = await packed_of(request).reply(request, key, now.jobs_rev, body)
    poller.keep_new(rows.of(key)[:ROWS_LOOKED])
    return reply


@router.get("/words", response_model=schemas.JobWords)
async def words(request: Request, session: Viewer) -> Response:
    """The keys of a filter of jobs, with the values of those that have few, of at most 500 each.

    They are of the jobs that slurmctld knows; ``state`` has all states of Slurm.
    """
    now = await poller_of(request, session).fresh()
    who = shared_by(state_of(request), session)
    return await packed_of(request).reply(
        request, f"words:{who}", now.jobs_rev, lambda: {"words": filter_words(now.jobs.values())}
    )


def page_of(listed: Sequence[Job], offset: int, limit: int, *, arrays: bool) -> dict[str, Any]:
    """One page of a list; ``total``: how many rows there are, ``jobs``: how many jobs those are."""
    if not arrays:
        return {"total": len(listed), **job_rows(listed[offset : offset + limit])}
    page, total = page_of_groups(listed, offset, limit)
    return {
        "total": total,
        "jobs": len(listed),
        "arrays": array_rows(page),
        **job_rows(group[0] for group in page),
    }


@router.get("/{job_id}", response_model=schemas.JobDetail)
async def job(job_id: JobId, session: Viewer, state: Here) -> Any:
    """All that slurmctld reports to this user of one job; when it has forgotten it, accounting.

    While Slurm does not answer it is what was seen last, as in the list of jobs.
    """
    record, known_at = await _seen(state, session, job_id)
    poller_for(state, session).keep_new([job_id])
    forgotten = record is None
    record = record or await _past(state, session, job_id)
    mine = record.user == session.user
    why = record.why if known_at else await why_pending(state, session, record)
    return {
        **job_fields(record),
        "why": why,
        "mine": mine,
        "may": mine or session.operates,
        "forgotten": forgotten,
        "known_at": known_at,
    }


@router.get("/{job_id}/tasks", response_model=schemas.ArrayTasks)
async def array_of(job_id: JobId, session: Viewer, state: Here) -> Any:
    """The array that a job is a task of: tasks by state, and those with an own record.

    slurmctld forgets tasks while others run: accounting has them, where there is one.
    """
    record = await known_job(state, session, job_id)
    if not record.array:
        raise CorralError(Code.NOT_FOUND, f"job {job_id} is not of an array", hint="")
    tasks = await records_of_array(state, session, record)
    return await asyncio.to_thread(array_tasks_of, tasks)


async def records_of_array(state: State, session: Session, record: Job) -> list[Job]:
    """All records of the array that a job is a task of, that of those that have not begun too."""
    now = poller_for(state, session).now.jobs
    live = {number: job for number, job in now.items() if job.array == record.array}
    past = await _past_tasks(state, session, int(record.array))
    ended = {job.id: job for job in past if job.ended or not live}
    return [*({record.id: record} | ended | live).values()]


async def _past_tasks(state: State, session: Session, array: int) -> tuple[Job, ...]:
    """The tasks of an array that accounting has, none where it does not answer soon."""
    try:
        async with asyncio.timeout(TASKS_S):
            tasks = await state.responses.get(
                ("tasks", session.user, array),
                KEEP_TASKS_S,
                lambda: state.past.tasks(session.login, array),
            )
    except TimeoutError:
        return ()
    return tasks.value or ()


@router.get("/{job_id}/figures", response_model=schemas.Curves)
async def job_figures(job_id: JobId, session: Viewer, state: Here) -> Any:
    """What a job of one's own uses over time; operators see everybody's."""
    record = await known_job(state, session, job_id)
    if record.user != session.user and not session.operates:
        raise CorralError(
            Code.FORBIDDEN, f"job {job_id} is {record.user}'s", hint="ask its owner, or an operator"
        )
    if state.figures is None:
        return {"from": "", "curves": []}
    return await state.figures.job(record)


@router.get("/{job_id}/use", response_model=schemas.JobUse)
async def job_use(job_id: JobId, session: Viewer, state: Here) -> Any:
    """What an ended job used of what it was given, as accounting has it; null: nothing measured.

    ``cpu_given_s`` is its processors times its run time, ``gpu_given_s`` its GPUs times that.
    Memory is in MiB. How busy its GPUs were is for its owner and operators.
    """
    record = await known_job(state, session, job_id)
    # Together: metrics that do not answer are waited for a while.
    used, busy = await concurrently(
        state.past.use(session.login, job_id), _gpu_seconds(state, session, record)
    )
    elapsed = record.elapsed
    if elapsed is None and record.start_at and record.end_at:
        elapsed = record.end_at - record.start_at
    exact = record.gpus if record.gpus_exact else None
    return {
        "gpus": exact,
        "gpu_s": None
        if busy.value is None or not exact
        else min(busy.value, exact * (elapsed or 0)),
        "gpu_given_s": exact * elapsed if exact and elapsed else None,
        "why_no_gpus": busy.why,
        "cpu_s": used.cpu_s,
        "cpu_given_s": record.cpus * elapsed if elapsed else None,
        "memory": used.memory,
        "memory_given": record.memory or None,
    }


async def _gpu_seconds(state: State, session: Session, job: Job) -> CachedResponse[float]:
    """How long the GPUs of an ended job were busy, of all together; why that is unknown."""
    if not job.gpus or not job.ended or not job.start_at:
        return CachedResponse()
    if job.user != session.user and not session.operates:
        return CachedResponse(why=f"only {job.user} and operators see it")
    days = math.ceil((time.time() - (job.end_at or time.time())) / DAY_S) + 1
    if days > MOST_DAYS:
        return CachedResponse(why=f"metrics are asked for {MOST_DAYS} days at most")
    measured = replace(job, elapsed=job.elapsed or int(seconds_of(job, job.end_at or 0.0)))
    busy = await busy_gpus(state, f"job {job.id}", [measured], days)
    seconds = (busy.value or {}).get(job.id)
    short = "it was short, or metrics have it for a part of its time"
    return CachedResponse(seconds, busy.at, busy.why or ("" if seconds is not None else short))


@router.get("/{job_id}/extras", response_model=schemas.Extras)
async def extras(job_id: JobId, session: Viewer, state: Here) -> Any:
    """Environment, tracked run and recordings of one's own job."""
    record = await own_job(state, session, job_id)
    async with state.questions.turn(session.user):
        fields = (await own_commands(state).extras(session.login, record)).as_dict()
    if fields["run"] and state.tracking is not None:
        fields["tracking"] = await state.tracking.address() or fields["tracking"]
    return fields


@router.get("/{job_id}/profile", response_model=schemas.Profile)
async def profile(job_id: JobId, session: Viewer, state: Here) -> Any:
    """Where the time of one's own profiled job went: what `corral profile --json` prints."""
    async with state.questions.turn(session.user):
        return (await _recorded(state, session, job_id)).as_dict()


@router.get(
    "/{job_id}/profile.json.gz", response_class=Response, responses=file_of("application/gzip")
)
async def timeline(job_id: JobId, session: Viewer, state: Here) -> Response:
    """The traces of all ranks of one's own profiled job, as a file for ui.perfetto.dev."""
    # A download, too: the traces of all ranks are in memory until they are merged and sent.
    with state.downloads.counted(session.user):
        async with state.questions.turn(session.user):
            recorded = await _recorded(state, session, job_id)
            merged = await asyncio.to_thread(recorded.timeline)
    if not merged:
        raise CorralError(
            Code.NOT_FOUND,
            f"no traces of job {job_id}",
            hint=f"corral profile {job_id} lists its recordings",
        )
    name = f'attachment; filename="job-{job_id}.json.gz"'
    headers = {"content-disposition": name}
    return Response(merged, media_type="application/gzip", headers=headers)


async def _recorded(state: State, session: Session, job_id: int) -> api.Recordings:
    record = await own_job(state, session, job_id)
    spec = here_of(state)
    if spec is None:
        raise elsewhere(state)
    return await api.job_profile(spec, str(record.id))


@router.get("/{job_id}/script", response_model=schemas.BatchScript)
async def script(job_id: JobId, session: Viewer, state: Here) -> Any:
    """The batch script of one's own job."""
    record = await own_job(state, session, job_id)
    async with state.questions.turn(session.user):
        return {"script": await own_commands(state).script(session.login, record.id)}


@router.post("/{job_id}", response_model=schemas.Done)
async def act(
    request: Request, job_id: JobId, action: Action, session: Changer, state: Here
) -> Any:
    """Cancel, hold, release or requeue a job, or change its limit; with the user's own token."""
    if action.do == "limit" and action.minutes is None:
        raise CorralError(Code.USAGE, "a limit needs minutes", hint="send minutes")
    record = await _job(state, session, job_id)
    if record.user != session.user and not session.operates:
        state.audit.note(session.user, action.do, f"job {job_id}", Code.FORBIDDEN.value)
        raise CorralError(
            Code.FORBIDDEN,
            f"job {job_id} is {record.user}'s: its owner and operators may {action.do} it here",
            hint="ask one of them; a coordinator of its account may use scancel on a node",
        )
    await audited(state, session, action.do, f"job {job_id}", _done(state, session, record, action))
    poller_of(request, session).nudge(record.id)
    return {"ok": True}


async def _done(state: State, session: Session, record: Job, action: Action) -> None:
    number = await state.rest.version(session.login)
    login, doing = session.login, f"{action.do} job {record.label}"
    if action.do == "cancel":
        await state.rest.cancel(login, record)
    elif action.do == "limit":
        body = write.limit_body(action.minutes or 1, number)
        await state.rest.update(login, record, body, doing)
    elif action.do == "requeue":
        await _requeue(state, session, record)
    else:
        body = write.hold_body(held=action.do == "hold")
        await state.rest.update(login, record, body, doing)


async def _requeue(state: State, session: Session, record: Job) -> None:
    """Slurmrestd has no requeue before 26.05: by Corral, as the job's owner, where it runs here."""
    own = own_commands(state)
    if record.user != session.user:
        raise CorralError(
            Code.FORBIDDEN, "only its owner requeues a job here", hint="scontrol requeue ID"
        )
    if record.waiting:
        raise CorralError(Code.USAGE, f"job {record.label} has not begun: it is in the queue")
    async with state.questions.turn(session.user):
        await own.requeue(session.login, record)


async def _job(state: State, session: Session, job_id: int) -> Job:
    record = await state.rest.job(session.login, job_id)
    if record is None:
        raise CorralError(
            Code.NOT_FOUND,
            f"Slurm does not know job {job_id} any more",
            hint="it keeps ended jobs for MinJobAge; their page shows what accounting has",
        )
    return record


async def _past(state: State, session: Session, job_id: int) -> Job:
    record = await state.past.job(session.login, job_id)
    if record is None:
        raise CorralError(
            Code.NOT_FOUND,
            f"Slurm does not know job {job_id}",
            hint="slurmctld keeps ended jobs for MinJobAge, accounting longer, where there is one",
        )
    return record


async def known_job(state: State, session: Session, job_id: int) -> Job:
    """The job as slurmctld reports it, or reported it last, or accounting."""
    record, _ = await _seen(state, session, job_id)
    return record or await _past(state, session, job_id)


async def _seen(state: State, session: Session, job_id: int) -> tuple[Job | None, float]:
    """The job as slurmctld reports it, and 0; where it does not answer the last known, and when.

    That is what a list had of it, of slurmctld's or of accounting's, else what accounting has now.
    None: slurmctld does not know it.

    Raises:
        CorralError: UNREACHABLE or TIMED_OUT, and nobody else knows the job.
    """
    now = poller_for(state, session).now
    last = now.jobs.get(job_id)
    try:
        async with asyncio.timeout(SILENT_S if now.trouble else LAST_KNOWN_S):
            return await state.rest.job(session.login, job_id), 0.0
    except (TimeoutError, CorralError) as error:
        if isinstance(error, CorralError) and error.code in _DECIDED:
            raise
        if last is not None:
            return last, now.seen_at
        kept = state.past.kept(session.login, job_id)
        return kept or await _recalled(state, session, job_id, error)


async def _recalled(
    state: State, session: Session, job_id: int, why: TimeoutError | CorralError
) -> tuple[Job, float]:
    """A job out of accounting, while slurmctld does not answer; and when that was."""
    record = None
    try:
        async with asyncio.timeout(ACCOUNTING_S):
            record = await state.past.job(session.login, job_id)
    except (TimeoutError, CorralError) as error:
        if isinstance(error, CorralError) and error.code in _DECIDED:
            raise
    if record is not None:
        return record, time.time()
    if isinstance(why, CorralError):
        raise why
    raise CorralError(
        Code.TIMED_OUT,
        f"job {job_id} is unknown: slurmctld does not answer, and accounting does not show it",
        hint="the page asks again once slurmctld answers; corral doctor shows why it does not",
    ) from why


async def own_job(state: State, session: Session, job_id: int) -> Job:
    """A job of the viewer's own.

    Raises:
        CorralError: FORBIDDEN, it is somebody else's; NOT_FOUND.
    """
    record = await known_job(state, session, job_id)
    if record.user != session.user:
        raise CorralError(
            Code.FORBIDDEN,
            f"job {job_id} is {record.user}'s",
            hint="script and output are its owner's alone",
        )
    return record


def own_commands(state: State) -> UserCommands:
    """How a user's own commands are done.

    Raises:
        CorralError: FORBIDDEN, it cannot be done here.
    """
    if state.own is None:
        raise elsewhere(state)
    return state.own


def elsewhere(state: State) -> CorralError:
    """What is asked for needs Corral, or more than Slurm's REST API."""
    if state.spec is None:
        return CorralError(
            Code.FORBIDDEN,
            "this page has Slurm's REST API alone, which reads no files and runs no commands",
            hint="the page on the controller does (services: {ui: true}), and corral ui FILE where "
            "the cluster file is",
        )
    return CorralError(
        Code.FORBIDDEN,
        "this needs Corral itself, which does not run here",
        hint="on the machine with the cluster file: corral ui FILE",
    )


async def audited(state: State, session: Session, what: str, subject: str, work: Any) -> Any:
    """Do it, and note who did it and how it ended."""
    try:
        result = await work
    except CorralError as error:
        state.audit.note(session.user, what, subject, error.code.value)
        raise
    state.audit.note(session.user, what, subject)
    return result
