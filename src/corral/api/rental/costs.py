"""Use case: what rented machines cost and have cost, by provider, node, job and user."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.hosts.transport import check
from corral.inspect.jobs import UNIX_TIMES, past_jobs
from corral.inspect.question import inquiry
from corral.inspect.slurm import NODES, strictly
from corral.providers.cloud.budget import Spend, reserved, spend
from corral.providers.cloud.ledger import Ledger, Rental
from corral.slurm.records import Job, gpus_settled
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, elastic_of, has_guard
from corral.spec.slurm.hostlist import expand, fold
from corral.state_dir import state_dir

IDLE: Final = "(no job)"
DAYS: Final = 90
"""How far back jobs are counted."""


@dataclass(frozen=True, slots=True)
class JobUse:
    """A job's time on nodes.

    Attributes:
        job: its id.
        user, name: whose, and what.
        nodes: where.
        start, end: Unix seconds; ``end`` None while it runs.
        cpus, gpus: given to it on each node; gpus None where accounting does not count them.
    """

    job: int
    user: str
    name: str
    nodes: tuple[str, ...]
    start: float
    end: float | None
    cpus: float
    gpus: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the bill.

    Attributes:
        name: of what.
        dollars, hours: of it, and machine hours, as far as they are known.
        unpriced: the price of a machine in it is unknown, so it may be more dollars.
        share: "at least" or "at most" where a job's part of a machine is not known exactly, "?"
            for both.
    """

    name: str
    dollars: float
    hours: float
    unpriced: bool = False
    share: str = ""

    def in_dollars(self) -> str:
        """The dollars in words."""
        share = {"": "at least", "at most": "?"}.get(self.share, self.share)
        return _bounded(self.dollars, share if self.unpriced else self.share)

    def in_hours(self) -> str:
        """The hours in words."""
        return _bounded(self.hours, self.share)


def _bounded(number: float, share: str) -> str:
    if share == "?" or (share == "at least" and not number):
        return "?"
    return f"{share} {number:.2f}".strip()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a cluster costs.

    Attributes:
        cluster: its name.
        now: rate and total.
        per_hour, total: the budget's limits, None for none.
        providers, nodes, users, jobs: the total by each; jobs and users only while the cluster's
            accounting can be asked.
        silent: why jobs could not be asked, "" when they were.
        unread: lines of accounting that could not be read.
        then: when ``total`` is reached at this rate, what ends, and who ends it; "" without one.
    """

    cluster: str
    now: Spend
    per_hour: float | None
    total: float | None
    providers: tuple[Line, ...]
    nodes: tuple[Line, ...]
    users: tuple[Line, ...] = ()
    jobs: tuple[Line, ...] = ()
    silent: str = ""
    unread: int = 0
    then: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Hours and dollars of providers, nodes, users and jobs."""
        return asdict(self)


async def cost(spec: ClusterSpec) -> Cost:
    """What a cluster's rented machines cost, by job and user according to its accounting."""
    ledger = Ledger(spec.name)
    rentals = tuple(ledger.rentals().values())
    silent, uses, cpus, unread = "", (), {}, 0
    try:
        uses, cpus, unread = await _asked(spec)
    except CorralError as error:
        silent = error.message
    budget = spec.budget
    bill = judge(
        spec.name,
        rentals,
        uses,
        cpus,
        ledger.now(),
        limits=(budget.per_hour if budget else None, budget.total if budget else None),
        silent=silent,
    )
    return replace(
        bill, unread=unread, then=what_then(spec, bill.now, [r.node for r in rentals if r.open])
    )


def what_then(spec: ClusterSpec, now: Spend, nodes: Sequence[str]) -> str:
    """When ``budget.total`` is reached, what ends then, and who ends it; pure.

    Args:
        spec: the cluster.
        now: what it costs.
        nodes: what is rented now.
    """
    budget = spec.budget
    if budget is None or budget.total is None or not nodes:
        return ""
    left = budget.total - now.total
    until = left - reserved(budget, now.per_hour)
    late = "at the latest " if now.unpriced else ""
    if left <= 0:
        when = "the budget is spent"
    elif now.per_hour > 0:
        when = f"at this rate the budget is spent {late}in {left / now.per_hour:.1f} h"
    else:
        return ""
    who = f"the guard on {controller_of(spec)}" if has_guard(spec) else ""
    who = who or ("corral elastic, while it runs" if elastic_of(spec) else "")
    if not who:
        return f"{when}: nothing ends {fold(sorted(nodes))} then (budget.guard is off)"
    begin = f"{late}in {until / now.per_hour:.1f} h" if until > 0 else "now"
    return (
        f"{when}: {who} drains {fold(sorted(nodes))} {begin}, gives jobs {budget.grace} to save, "
        "and ends the machines"
    )


def cost_of_name(name: str) -> Cost:
    """What a cluster has cost that is gone: by provider and node.

    Raises:
        CorralError: NOT_FOUND, nothing was ever rented for it from here.
    """
    ledger = Ledger(name)
    rentals = tuple(ledger.rentals().values())
    if not rentals:
        raise CorralError(
            Code.NOT_FOUND,
            f"nothing was rented for a cluster {name} from here",
            hint=f"known: {', '.join(ledgers()) or 'none'}",
        )
    return judge(name, rentals, (), {}, ledger.now(), limits=(None, None), silent="it is gone")


def declared_prices(spec: ClusterSpec) -> dict[str, Rental]:
    """Nodes with a price in the cluster file (``price_per_hour``), as machines that always ran."""
    return {
        name: Rental(
            group.provider,
            name,
            *("", group.machine or "", ""),
            price=group.price_per_hour,
            intent=0.0,
            gpus=sum(gpu.count for gpu in group.gpu_kinds),
        )
        for group in spec.groups
        if group.price_per_hour is not None
        for name in expand(group.nodes)
    }


def cost_of_jobs(
    cluster: str,
    jobs: Iterable[Job],
    cpus: Mapping[str, int],
    since: float,
    *,
    spec: ClusterSpec | None = None,
    recorded: bool = True,
) -> Line | None:
    """What some jobs' parts of machines cost; None where the price of none is known.

    Args:
        cluster: its name.
        jobs: that ran.
        cpus: CPUs of each node.
        since: Unix seconds: what they used before is left out.
        spec: its prices are of nodes for which none is recorded; None: it has none.
        recorded: this machine has the ledger of what was rented.
    """
    ledger = Ledger(cluster)
    rented = ledger.rentals().values() if recorded else ()
    rentals = [r for r in rented if not r.refused]
    known = {rental.node for rental in rentals if rental.price is not None}
    prices = declared_prices(spec) if spec is not None else {}
    declared = {name: rental for name, rental in prices.items() if name not in known}
    rentals = [r for r in rentals if r.node not in declared] + [*declared.values()]
    if all(rental.price is None for rental in rentals):
        return None
    uses = list[JobUse]()
    for job in jobs:
        if job.start_at is not None and job.nodes and not job.waiting:
            try:
                use = _use(job, job.start_at)
            except CorralError:
                continue
            end = use.end if job.ended else None  # of a running job it is when its limit is reached
            uses.append(replace(use, start=max(use.start, since), end=end))
    return _by_job(uses, rentals, cpus, ledger.now())[2]


def ledgers() -> tuple[str, ...]:
    """Clusters for which something was rented from here, also those that are gone."""
    folder = state_dir() / "clouds"
    return tuple(sorted(path.stem for path in folder.glob("*.jsonl")))


def judge(
    cluster: str,
    rentals: Iterable[Rental],
    uses: Iterable[JobUse],
    cpus: Mapping[str, int],
    now: float,
    *,
    limits: tuple[float | None, float | None],
    silent: str = "",
) -> Cost:
    """The bill; pure.

    A job pays the part of a node that it was given, the larger of its CPUs and its GPUs (where one
    is unknown, at least the other); what no job had is its own line. Parts of a node together are
    never more than all of it.

    Args:
        cluster: its name.
        rentals: its ledger.
        uses: its jobs.
        cpus: CPUs of each node.
        now: Unix seconds.
        limits: budget per hour and in all.
        silent: why there are no jobs.
    """
    every = [r for r in rentals if not r.refused]
    jobs, users, had = _by_job(uses, every, cpus, now)
    providers: dict[str, Line] = {}
    nodes: dict[str, Line] = {}
    for rental in every:
        length = ((rental.ended or now) - rental.intent) / 3600
        line = Line("", rental.cost(now), length, rental.price is None)
        _add(providers, rental.provider, line)
        _add(nodes, rental.node, line)
    spent = spend(every, now)
    if not silent:
        left = sum(line.hours for line in nodes.values()) - had.hours
        rest = max(0.0, spent.total - had.dollars)
        share = "at most" if had.share else ""
        _add(users, IDLE, Line("", rest, max(0.0, left), bool(spent.unpriced_ever), share))
    return Cost(
        cluster,
        spent,
        *limits,
        _sorted(providers),
        _sorted(nodes),
        _sorted(users),
        _sorted(jobs),
        silent,
    )


def _by_job(
    uses: Iterable[JobUse], rentals: Sequence[Rental], cpus: Mapping[str, int], now: float
) -> tuple[dict[str, Line], dict[str, Line], Line]:
    """The lines of jobs and of users, and what all jobs had together."""
    jobs: dict[str, Line] = {}
    users: dict[str, Line] = {}
    for use in uses:
        for rental in rentals:
            if rental.node in use.nodes:
                part, exact = _part(use, rental, cpus.get(rental.node, 0))
                hours = _overlap(use, rental, now) * part / 3600
                dollars = hours * (rental.price or 0.0)
                line = Line("", dollars, hours, rental.price is None, "" if exact else "at least")
                _add(jobs, f"{use.job} {use.name}", line)
                _add(users, use.user, line)
    return jobs, users, summed("", list(users.values()))


def _part(use: JobUse, rental: Rental, cpus: int) -> tuple[float, bool]:
    """The part of a machine that a job was given, and whether it can not be more."""
    by_cpu = use.cpus / cpus if cpus else None
    by_gpu = 0.0 if use.gpus == 0 or rental.gpus == 0 else None
    if use.gpus and rental.gpus:
        by_gpu = use.gpus / rental.gpus
    part = min(1.0, max(by_cpu or 0.0, by_gpu or 0.0))
    return part, part >= 1.0 or (by_cpu is not None and by_gpu is not None)


def _overlap(use: JobUse, rental: Rental, now: float) -> float:
    begin = max(use.start, rental.intent)
    return max(0.0, min(use.end or now, rental.ended or now) - begin)


def _add(lines: dict[str, Line], name: str, more: Line) -> None:
    lines[name] = summed(name, [line for line in (lines.get(name), more) if line is not None])


def summed(name: str, lines: Sequence[Line]) -> Line:
    """One line of several."""
    shares = {line.share for line in lines} - {""}
    return Line(
        name,
        sum(line.dollars for line in lines),
        sum(line.hours for line in lines),
        any(line.unpriced for line in lines),
        "?" if len(shares) > 1 else "".join(shares),
    )


def _sorted(lines: Mapping[str, Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines.values(), key=lambda line: (-line.dollars, line.name)))


async def _asked(spec: ClusterSpec) -> tuple[tuple[JobUse, ...], dict[str, int], int]:
    if not spec.slurm.accounting:
        raise CorralError(Code.NOT_FOUND, "the cluster keeps no accounting")
    past = past_jobs(f"m{secrets.token_hex(8)}", DAYS)
    asked = inquiry((past, NODES), before=UNIX_TIMES)
    async with await Connection.open(spec) as session:
        session.require_running()
        answer = check(
            await session.fleet.run(session.controller, asked.script, timeout=90),
            "asking for jobs",
        )
    sections = asked.read(answer.stdout)
    lead, err = session.controller, answer.stderr
    jobs = sections.succeeded(past.name, lead, "asking accounting for jobs", stderr=err)
    nodes = sections.succeeded(NODES.name, lead, "asking Slurm for the nodes' CPUs", stderr=err)
    cpus = {node.name: node.cpus for node in strictly(NODES).parse(nodes)}
    listed, unread = past.parse(jobs)
    uses, odd = uses_of(listed, uncounted=False)
    return uses, cpus, unread + odd


def uses_of(listed: Sequence[Job], *, uncounted: bool) -> tuple[tuple[JobUse, ...], int]:
    """Jobs that ran, and how many records have nodes that cannot be read.

    Args:
        listed: jobs of accounting.
        uncounted: as of ``gpus_settled``; Corral has GPUs counted wherever a node has some.
    """
    unread = 0
    ran = [job for job in listed if job.start_at is not None and job.nodes]
    uses: list[JobUse] = []
    for job in gpus_settled(ran, uncounted=uncounted):
        try:
            uses.append(_use(job, job.start_at or 0))
        except CorralError:
            unread += 1
    return tuple(uses), unread


def _use(job: Job, start: int) -> JobUse:
    """A job that ran.

    Raises:
        CorralError: its nodes are not a hostlist.
    """
    number = max(1, job.node_count)
    return JobUse(
        job.id,
        job.user,
        job.name,
        tuple(expand(job.nodes)),
        start,
        job.end_at,
        job.cpus / number,
        job.gpus / number if job.gpus is not None and job.gpus_exact else None,
    )
