"""My work: what a user's jobs have of the limits, hours and cost, and what ended jobs wasted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Query, Request

from corral import api
from corral.errors import Code, CorralError
from corral.jobs.allowances import why_never
from corral.runtime.tasks import concurrently
from corral.slurm.job_use import JobUse
from corral.slurm.policy import Member
from corral.slurm.records import Job
from corral.slurm.rest import policy as questions
from corral.slurm.states.reasons import by_limit
from corral.spec.slurm.hostlist import expand
from corral.web import schemas
from corral.web.routes.policy import asked
from corral.web.slurm import efficiency, quota
from corral.web.slurm.arrays import grouped
from corral.web.slurm.choices import Charge, allowances
from corral.web.slurm.efficiency import GpuUse
from corral.web.slurm.response_cache import CachedResponse
from corral.web.slurm.snapshot import Snapshot
from corral.web.state import Here, State, Viewer, here_of, poller_for, poller_of
from corral.web.users.sessions import Session

router = APIRouter(prefix="/api/mine", tags=["mine"])
T = TypeVar("T")
PERIODS: Final = (7, 30)
KEEP_GPUS_S: Final = 20.0
KEEP_USES_S: Final = 120.0
MEASURE_S: Final = 8.0
MOST_NODES: Final = 128
"""Nodes whose GPUs are asked about for one user."""
NO_METRICS: Final = "this cluster has no metrics (services: metrics)"
IDS: Final = r"^([0-9]{1,10}(,[0-9]{1,10}){0,199})?$"
Numbers = Annotated[str, Query(pattern=IDS)]
Name = Annotated[str, Query(max_length=64, pattern=r"^[A-Za-z0-9_.@-]*$")]


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose work is shown, to whom."""

    user: str
    session: Session


def _whose(session: Session, user: str) -> Asked:
    """The viewer, or another user for operators and administrators.

    Raises:
        CorralError: FORBIDDEN.
    """
    if user and user != session.user and not session.operates:
        raise CorralError(
            Code.FORBIDDEN,
            "the work of other users is for operators and administrators",
            hint="sacctmgr modify user NAME set adminlevel=operator",
        )
    return Asked(user or session.user, session)


@router.get("", response_model=schemas.MyWork)
async def mine(request: Request, session: Viewer, state: Here, user: Name = "") -> dict[str, Any]:
    """What a user's jobs have now, against the limits of user, accounts and QOS; running jobs.

    In ``rows`` a ``limit`` of null is unlimited, or unknown where ``unknown`` is true; ``used`` is
    null where Slurm hides others' jobs. ``idle`` has GPUs of a running job that do nothing,
    ``idle_count`` how many those are; ``known`` counts those that were measured. The running tasks
    of an array are one row of ``running``, with their number in ``array``.
    """
    who = _whose(session, user)
    now = await poller_of(request, session).fresh()
    jobs = tuple(now.jobs.values())
    own = [job for job in jobs if job.user == who.user and not job.ended]
    limits = await limits_of(state, who.user, session, now)
    active = [job for job in own if not job.waiting]
    gpus = await _gpu_use(state, who.user, active)
    use, waiting = quota.use_of(own), [job for job in own if job.waiting]
    known = await asked(state, session, questions.ASSOCIATIONS)

    def why(job: Job) -> str:
        return never(job, known.value or (), limits["rows"]) or job.why

    at = time.time()
    newest = sorted(active, key=lambda job: -job.id)
    rows = [efficiency.running(jobs, gpus.value or GpuUse({}, {}), at) for jobs in grouped(newest)]
    return {
        "user": who.user,
        "at": now.seen_at,
        "jobs": use.jobs,
        "pending": use.submitted - use.jobs,
        "gpus": use.of("gpus"),
        "gpus_exact": use.gpus_exact,
        "cpus": use.of("cpus"),
        "memory": use.of("memory"),
        "nodes": use.of("nodes"),
        "reasons": _reasons(waiting, why),
        "limits": limits,
        "running": rows,
        "measured": {**gpus.head(), "over_s": gpus.value.over_s if gpus.value else 0.0},
    }


def never(job: Job, members: Sequence[Member], limits: Sequence[Mapping[str, Any]]) -> str:
    """Why a pending job alone is beyond a limit, "" where it is not.

    Args:
        job: the job.
        members: all associations.
        limits: the rows of its user's limits.
    """
    if not by_limit(job.reason):
        return ""
    charge = Charge(job.user, job.account, job.qos, job.partition)
    return why_never(job, allowances(charge, members, limits))


async def why_pending(state: State, session: Session, job: Job) -> str:
    """Why a job is pending, its limits looked at where one of them is the reason."""
    if not job.waiting or not by_limit(job.reason):
        return job.why
    now = poller_for(state, session).now
    limits = await limits_of(state, job.user, session, now)
    members = await asked(state, session, questions.ASSOCIATIONS)
    return never(job, members.value or (), limits["rows"]) or job.why


def _reasons(waiting: list[Job], why_of: Callable[[Job], str]) -> list[dict[str, Any]]:
    """Why jobs are pending, those of most jobs first."""
    counted = dict[tuple[str, str], int]()
    for job in waiting:
        key = (job.reason, why_of(job))
        counted[key] = counted.get(key, 0) + quota.use_of([job]).submitted
    ordered = sorted(counted.items(), key=lambda pair: -pair[1])
    return [{"reason": r, "why": why, "jobs": count} for (r, why), count in ordered]


async def limits_of(state: State, user: str, session: Session, now: Snapshot) -> dict[str, Any]:
    """What a user's jobs have of each limit (``quota.rows``), and what is unknown of it.

    Args:
        state: the server's.
        user: whose jobs.
        session: whose token asks.
        now: the jobs.
    """
    members, qoses, shares = await concurrently(
        asked(state, session, questions.ASSOCIATIONS),
        asked(state, session, questions.QOSES),
        asked(state, session, questions.SHARES),
    )
    hidden = state.private_data.hidden or state.private_data.accounting_hidden
    all_seen = session.operates or not hidden

    def rows() -> list[dict[str, Any]]:
        groups = state.counted.of(now.jobs)
        known = members.value or ()
        return quota.rows(user, groups, known, qoses.value, shares.value, all_seen=all_seen)

    # In a thread: there may be 50,000 jobs and 10,000 associations.
    return {**members.head(), "why_no_qos": qoses.why, "rows": await asyncio.to_thread(rows)}


async def _gpu_use(state: State, user: str, jobs: list[Job]) -> CachedResponse[GpuUse]:
    """How busy the GPUs of a user's jobs are; unknown where nobody measures them."""
    names = dict.fromkeys(name for job in jobs if job.gpus for name in expand(job.nodes))
    nodes = list(names)[:MOST_NODES]
    if state.figures is None:
        return CachedResponse(why=NO_METRICS)
    if not nodes:
        return CachedResponse(GpuUse({}, {}), time.time())
    source = state.figures

    async def ask() -> GpuUse:
        return await _within(source.gpu_use(nodes))

    return await state.responses.get(("gpus", user, tuple(nodes)), KEEP_GPUS_S, ask)


async def _within(answer: Awaitable[T]) -> T:
    """A measurement, or that it takes too long.

    Raises:
        CorralError: TIMED_OUT; why there is none.
    """
    try:
        async with asyncio.timeout(MEASURE_S):
            return await answer
    except TimeoutError as error:
        raise CorralError(
            Code.TIMED_OUT, f"the metrics do not answer within {MEASURE_S:g} s"
        ) from error


@router.get("/gpus", response_model=schemas.GpusOfJobs)
async def gpus(
    request: Request, session: Viewer, state: Here, ids: Numbers = "", arrays: Numbers = ""
) -> dict[str, Any]:
    """How busy the GPUs of running jobs are, one's own and for operators those of others.

    ``ids`` are numbers of jobs with commas between them, at most 200, ``arrays`` those of arrays,
    whose running tasks are one row. Others, and jobs that do not run or have no GPUs, are left out.
    """
    now = await poller_of(request, session).fresh()

    def counts(job: Job) -> bool:
        mine = job.user == session.user or session.operates
        return mine and job.running and bool(job.gpus or not job.gpus_exact)

    listed = (now.jobs.get(int(number)) for number in dict.fromkeys(ids.split(",")) if number)
    single = [job for job in listed if job is not None and counts(job)]
    named = {*arrays.split(",")} - {""}

    def of_arrays() -> list[Job]:
        return [job for job in now.jobs.values() if counts(job) and job.array in named]

    tasks = await asyncio.to_thread(of_arrays) if named else []  # of 50,000 jobs
    use = await _gpu_use(state, session.user, [*single, *tasks])
    at, known = time.time(), use.value or GpuUse({}, {})
    rows = [efficiency.running([job], known, at, together=False) for job in single]
    return {
        "running": rows + [efficiency.running(jobs, known, at) for jobs in grouped(tasks)],
        "measured": {**use.head(), "over_s": use.value.over_s if use.value else 0.0},
    }


@router.get("/hours", response_model=schemas.WorkHours)
async def hours(request: Request, session: Viewer, state: Here, user: Name = "") -> dict[str, Any]:
    """GPU and CPU hours of the last 7 and 30 days, and what they cost.

    ``cut``: there were more jobs than are counted, so it is at least so much. ``cost`` is null
    where the price of no machine is known here, and ``why_no_cost`` has the reason.
    """
    who = _whose(session, user)
    jobs, why, cut, now = await _jobs(request, state, who)
    if why:
        none: dict[str, Any] = {"cut": False, "why_no_cost": "", "periods": []}
        return {"user": who.user, "known": False, "why": why, **none}
    at = time.time()
    costs = await asyncio.to_thread(_costs, state, jobs, now, at)
    periods = [
        {**efficiency.hours(jobs, days, at), "cost": cost}
        for days, cost in zip(PERIODS, costs, strict=True)
    ]
    why_no_cost = "" if any(costs) else _why_no_cost(state)
    return {
        **{"user": who.user, "known": True, "why": "", "cut": cut},
        **{"why_no_cost": why_no_cost, "periods": periods},
    }


def _why_no_cost(state: State) -> str:
    """Why no price is known here: the cluster file has none, nor the ledger of who rents."""
    spec = state.spec
    if spec is None:
        return "no price is known without the cluster file"
    if not any(group.capabilities.rental for group in spec.groups):
        return "the cluster file has no price for machines that are not rented (price_per_hour)"
    if here_of(state) is None:
        return (
            "what machines cost is recorded where they are rented from: corral ui FILE there, or "
            "price_per_hour of their group"
        )
    return "the price of no rented machine is known"


async def _jobs(
    request: Request, state: State, who: Asked
) -> tuple[list[Job], str, bool, Snapshot]:
    """A user's jobs that run or ended in the longest period; why accounting has none."""
    now = await poller_of(request, who.session).fresh()
    try:
        past = await state.past.ended(who.session.login, PERIODS[-1], who.user)
    except CorralError as error:
        if error.code is Code.LOGIN_REFUSED:
            raise
        return [], error.message, False, now
    jobs = {job.id: job for job in past.jobs}
    jobs |= {job.id: job for job in now.jobs.values() if job.user == who.user and not job.waiting}
    return [job for job in jobs.values() if job.user == who.user], "", past.cut, now


def _costs(state: State, jobs: list[Job], now: Snapshot, at: float) -> list[dict[str, Any] | None]:
    spec = state.spec
    if spec is None:
        return [None for _ in PERIODS]
    cpus = {node.name: node.cpus for node in now.nodes.values()}
    recorded = here_of(state) is not None
    begins = (at - days * efficiency.DAY_S for days in PERIODS)
    lines = [
        api.cost_of_jobs(spec.name, jobs, cpus, begin, spec=spec, recorded=recorded)
        for begin in begins
    ]
    return [line and {"dollars": line.dollars, "words": line.in_dollars()} for line in lines]


@router.get("/efficiency", response_model=schemas.Efficiency)
async def job_efficiency(
    request: Request,
    session: Viewer,
    state: Here,
    days: Literal["1", "7", "30"] = "7",
    user: Name = "",
) -> dict[str, Any]:
    """What ended jobs used of what they asked for, as shares; null: not measured.

    The tasks of an array are one row. ``cut``: the newest of the period, of more. The use of the
    newest 1,000 jobs and tasks is asked for; ``measured`` counts those of a row that accounting has
    samples of. ``*_waste`` are hours of GPUs, CPUs and GiB that they had and did not use.
    """
    who = _whose(session, user)
    jobs, why, cut, _ = await _jobs(request, state, who)
    head = {"user": who.user, "days": int(days), "most": efficiency.MOST}
    if why:
        return {**head, "known": False, "why": why, "cut": False, "why_no_gpus": "", "jobs": []}
    at = time.time()
    ended = efficiency.newest(jobs, int(days), at)
    uses = await _uses(state, who, ended.measured, ended.seconds, int(days))
    busy = await busy_gpus(state, f"user {who.user}", ended.measured, int(days))
    rows = [efficiency.row(jobs, uses.value or {}, busy.value or {}) for jobs in ended.entries]
    return {
        **head,
        "known": True,
        "why": uses.why,
        "cut": cut or ended.cut,
        "why_no_gpus": busy.why,
        "jobs": rows,
    }


async def _uses(
    state: State, who: Asked, jobs: list[Job], seconds: int, days: int
) -> CachedResponse[dict[int, JobUse]]:
    if not jobs:
        return CachedResponse({}, time.time())
    login = who.session.login
    return await state.responses.get(
        ("uses", who.session.user, who.user, days),
        KEEP_USES_S,
        lambda: state.past.ask(lambda slurm: slurm.past_uses(login, seconds, who.user)),
    )


async def busy_gpus(
    state: State, what: str, jobs: list[Job], days: int
) -> CachedResponse[dict[int, float]]:
    """Seconds that GPUs of ended jobs were busy, by job; why that is unknown.

    Args:
        state: the server's.
        what: which jobs those are; an answer is kept for it.
        jobs: that ended in the last days.
        days: how many.
    """
    source = state.figures
    if source is None:
        return CachedResponse(why=NO_METRICS)
    return await state.responses.get(
        ("busy", what, days), KEEP_USES_S, lambda: _within(source.busy(jobs, days))
    )
