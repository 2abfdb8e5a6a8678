"""Use case: what rented machines cost and have cost, by provider, node, job and user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.hosts.framing import Inquiry
from corral.hosts.quote import sh
from corral.hosts.state_dir import state_dir
from corral.hosts.transport import check
from corral.providers.cloud.budget import Spend, spend
from corral.providers.cloud.ledger import Ledger, Rental
from corral.slurm.gpus import listed
from corral.spec.hostlist import expand
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, elastic_of, fold, has_guard

_FIELDS: Final = "JobIDRaw,User,JobName,NodeList,Start,End,AllocCPUS,NNodes,AllocTRES"
IDLE: Final = "(no job)"


@dataclass(frozen=True, slots=True)
class JobUse:
    """A job's time on nodes.

    Attributes:
        job: its id.
        user, name: whose, and what.
        nodes: where.
        start, end: Unix seconds; ``end`` None while it runs.
        cpus, gpus: given to it on each node.
    """

    job: int
    user: str
    name: str
    nodes: tuple[str, ...]
    start: float
    end: float | None
    cpus: float
    gpus: float


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the bill: of what, dollars, and machine hours."""

    name: str
    dollars: float
    hours: float


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
    then: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return asdict(self)


async def cost(spec: ClusterSpec) -> Cost:
    """What a cluster's rented machines cost, by job and user as its accounting tells."""
    ledger = Ledger(spec.name)
    rentals = tuple(ledger.rentals().values())
    silent, uses, cpus = "", (), {}
    try:
        uses, cpus = await _asked(spec)
    except CorralError as error:
        silent = error.message
    budget = spec.budget
    found = judge(
        spec.name,
        rentals,
        uses,
        cpus,
        ledger.now(),
        limits=(budget.per_hour if budget else None, budget.total if budget else None),
        silent=silent,
    )
    return replace(found, then=what_then(spec, found.now, [r.node for r in rentals if r.open]))


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
    if left <= 0:
        when = "the budget is spent"
    elif now.per_hour > 0:
        when = f"at this rate the budget is spent in {left / now.per_hour:.1f} h"
    else:
        return ""
    who = f"the guard on {controller_of(spec)}" if has_guard(spec) else ""
    who = who or ("corral elastic, while it runs" if elastic_of(spec) else "")
    if not who:
        return f"{when}: nothing ends {fold(sorted(nodes))} then (budget.guard is off)"
    return (
        f"{when}: {who} drains {fold(sorted(nodes))} then, gives jobs {budget.grace} to save, and "
        "ends the machines"
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

    A job pays the part of a node that it was given, the larger of its CPUs and its GPUs; what no
    job had is its own line. Parts of a node together are never more than all of it.

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
    jobs: dict[str, Line] = {}
    users: dict[str, Line] = {}
    total, hours = 0.0, 0.0
    for use in uses:
        for rental in every:
            if rental.node in use.nodes:
                part = _part(use, rental, cpus.get(rental.node, 0))
                seconds = _overlap(use, rental, now) * part
                dollars = seconds / 3600 * (rental.price or 0.0)
                total, hours = total + dollars, hours + seconds / 3600
                _add(jobs, f"{use.job} {use.name}", dollars, seconds / 3600)
                _add(users, use.user, dollars, seconds / 3600)
    providers: dict[str, Line] = {}
    nodes: dict[str, Line] = {}
    for rental in every:
        length = ((rental.ended or now) - rental.intent) / 3600
        _add(providers, rental.provider, rental.cost(now), length)
        _add(nodes, rental.node, rental.cost(now), length)
    whole = spend(every, now)
    if not silent:
        left = sum(line.hours for line in nodes.values()) - hours
        _add(users, IDLE, max(0.0, whole.total - total), max(0.0, left))
    return Cost(
        cluster,
        whole,
        *limits,
        _sorted(providers),
        _sorted(nodes),
        _sorted(users),
        _sorted(jobs),
        silent,
    )


def _part(use: JobUse, rental: Rental, cpus: int) -> float:
    by_cpu = use.cpus / cpus if cpus else 1.0
    by_gpu = use.gpus / rental.gpus if rental.gpus else 0.0
    return min(1.0, max(by_cpu, by_gpu))


def _overlap(use: JobUse, rental: Rental, now: float) -> float:
    begin = max(use.start, rental.intent)
    return max(0.0, min(use.end or now, rental.ended or now) - begin)


def _add(lines: dict[str, Line], name: str, dollars: float, hours: float) -> None:
    old = lines.get(name, Line(name, 0.0, 0.0))
    lines[name] = Line(name, old.dollars + dollars, old.hours + hours)


def _sorted(lines: Mapping[str, Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines.values(), key=lambda line: (-line.dollars, line.name)))


async def _asked(spec: ClusterSpec) -> tuple[tuple[JobUse, ...], dict[str, int]]:
    if not spec.slurm.accounting:
        raise CorralError(Code.NOT_FOUND, "the cluster keeps no accounting")
    asked = Inquiry(
        {
            "jobs": sh(
                "TZ=UTC timeout 40 sacct -aXnP -S now-90days -E now -o {fields}", fields=_FIELDS
            ),
            "nodes": sh("timeout 20 sinfo -hN -o '%N %c'"),
        }
    )
    async with await Session.open(spec) as session:
        session.require_running()
        answer = check(
            await session.fleet.run(session.controller, asked.script, timeout=90),
            "asking for jobs",
        )
    sections = asked.read(answer.stdout)
    jobs = sections.succeeded("jobs", session.controller, "asking accounting for jobs")
    nodes = sections.succeeded("nodes", session.controller, "asking Slurm for the nodes' CPUs")
    cpus = {w[0]: int(w[1]) for w in map(str.split, nodes.splitlines()) if len(w) == 2}  # noqa: PLR2004
    return read_jobs(jobs), cpus


def read_jobs(text: str) -> tuple[JobUse, ...]:
    """Jobs that ran, from what ``sacct -XnP`` printed; lines that make no sense are left out."""
    found: list[JobUse] = []
    for line in text.splitlines():
        fields = line.split("|")
        try:
            job, user, name, nodes, start, end, cpus, count, tres = fields
            began = _time(start)
            if began is None or nodes in ("", "None assigned"):
                continue
            number = max(1, int(count))
            found.append(
                JobUse(
                    int(job),
                    user,
                    name,
                    tuple(expand(nodes)),
                    began,
                    _time(end),
                    int(cpus) / number,
                    (listed(tres) or 0) / number,
                )
            )
        except (ValueError, KeyError):
            continue
    return tuple(found)


def _time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
