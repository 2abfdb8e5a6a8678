"""Use case: what became of the cluster's time in a month, from accounting."""

from __future__ import annotations

import re
import secrets
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from corral.api.operations.node_history import require_accounting
from corral.apply.connection import Connection
from corral.doctor.lemons import CAUSES, Cause, cause_of, causes_of
from corral.errors import Code, CorralError
from corral.hosts.transport import check
from corral.inspect.jobs import runs
from corral.inspect.question import Question, T, answer_to
from corral.inspect.slurm import cluster_sizes, month_bounds, outages
from corral.roles.machine.people import PROOF
from corral.slurm.array_tasks import array_label
from corral.slurm.records import JobRun, Outage
from corral.slurm.states.jobs import JobState, has_ended, job_states
from corral.slurm.tres import counts
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of

ASK_S: Final = 900.0
_HOUR: Final = 3600
_MONTH: Final = re.compile(r"20\d\d-(?:0[1-9]|1[0-2])")
GPU: Final = "gres/gpu"
KINDS: Final = ("completed", "failed", "requeued", "stopped", "running", "checks")
"""What became of the hours that jobs had."""


@dataclass(frozen=True, slots=True)
class Month:
    """The time of a report, in epoch seconds; it ends now where the month goes on.

    Attributes:
        name: ``2026-11``.
        begin: its first second, in the controller's time zone.
        end: behind its last.
    """

    name: str
    begin: int
    end: int

    @property
    def first(self) -> str:
        """Its begin, as Slurm's commands read it."""
        return f"uts{self.begin}"

    @property
    def last(self) -> str:
        """Its end, as Slurm's commands read it."""
        return f"uts{self.end}"

    def seconds(self, start: int | None, end: int | None) -> int:
        """Seconds of a time that are in it; an end of None is still to come."""
        if start is None:
            return 0
        return max(0, min(self.end if end is None else end, self.end) - max(start, self.begin))


@dataclass(slots=True)
class Usage:
    """What one account, or the cluster, had.

    Attributes:
        runs: how many runs of jobs, by what became of them; a requeued job has several.
        hours: GPU-hours (CPU-hours where the cluster has no GPUs), by the same.
        waited: such hours that jobs asked for and waited for.
        waits: seconds that each run that began in the month waited.
        cpu_hours: CPU-hours of all runs.
        gpuless: those of runs without a GPU, of shards of one too: they are in no GPU-hour.
    """

    runs: Counter[str] = field(default_factory=Counter[str])
    hours: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))
    waited: float = 0.0
    waits: list[int] = field(default_factory=list[int])
    cpu_hours: float = 0.0
    gpuless: float = 0.0

    @property
    def allocated(self) -> float:
        """All hours that jobs had."""
        return sum(self.hours.values())

    def as_dict(self, price: float | None) -> dict[str, Any]:
        """JSON-ready; ``cost`` where there is a price of an hour."""
        cost = {} if price is None else {"cost": round(self.allocated * price, 2)}
        return {
            "runs": {kind: self.runs[kind] for kind in KINDS},
            "hours": {kind: round(hours, 3) for kind, hours in self.hours.items()},
            "allocated_hours": round(self.allocated, 3),
            "waiting_hours": round(self.waited, 3),
            "wait_seconds": asdict(waits(self.waits)),
            "cpu_hours": round(self.cpu_hours, 3),
            "cpu_hours_without_gpus": round(self.gpuless, 3),
            **cost,
        }


@dataclass(frozen=True, slots=True)
class Waits:
    """How long jobs waited for their start, in seconds; zeros where none began."""

    jobs: int = 0
    median: float = 0
    p90: float = 0
    longest: int = 0


def waits(seconds: Sequence[int]) -> Waits:
    """The median, the value that nine of ten do not exceed, and the longest."""
    if not seconds:
        return Waits()
    ordered = sorted(seconds)
    p90 = ordered[max(0, -(-9 * len(ordered) // 10) - 1)]
    return Waits(len(ordered), statistics.median(ordered), p90, ordered[-1])


@dataclass(frozen=True, slots=True)
class Down:
    """How long one node took no jobs in the month: hours, how often, and the causes."""

    hours: float
    times: int
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """What one cause cost, as the doctor reads the reasons of outages.

    Attributes:
        id: of the failure (F10) or of the health check; else the text that a person wrote; "" for
            outages that were planned or that have no reason.
        title: in words.
        nodes: how many had it.
        times: how often.
        hours: of the unit.
    """

    id: str
    title: str
    nodes: int
    times: int
    hours: float


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What became of a cluster's time in a month.

    Attributes:
        cluster: its name.
        month: the month.
        unit: what is counted: ``GPU`` or ``CPU``.
        capacity: hours that the cluster's units were there.
        down: those of them on nodes that took no jobs.
        total: what all jobs had.
        accounts: the same by account.
        nodes: nodes with an outage, by name.
        price: of an hour, None where none was given.
        causes: what took nodes out of service, the costliest first.
        lemons: nodes that several causes took out of service, none of them common to half of all.
    """

    cluster: str
    month: Month
    unit: str
    capacity: float
    down: float
    total: Usage
    accounts: dict[str, Usage]
    nodes: dict[str, Down]
    price: float | None = None
    causes: tuple[Lost, ...] = ()
    lemons: tuple[str, ...] = ()

    @property
    def idle(self) -> float:
        """Hours that no job had on nodes that took jobs."""
        return max(0.0, self.capacity - self.down - self.total.allocated)

    def part(self, hours: float) -> float:
        """Hours as a part of the capacity, from 0 to 1."""
        return hours / self.capacity if self.capacity else 0.0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: hours of the unit, times in epoch seconds."""
        return {
            "cluster": self.cluster,
            "month": self.month.name,
            "begin": self.month.begin,
            "end": self.month.end,
            "unit": self.unit,
            "capacity_hours": round(self.capacity, 3),
            "down_hours": round(self.down, 3),
            "idle_hours": round(self.idle, 3),
            "utilisation": round(self.part(self.total.allocated), 4),
            "goodput": round(self.part(self.total.hours["completed"]), 4),
            "total": self.total.as_dict(self.price),
            "accounts": {n: share.as_dict(self.price) for n, share in self.accounts.items()},
            "nodes": {name: asdict(down) for name, down in self.nodes.items()},
            "causes": [{**asdict(cause), "hours": round(cause.hours, 3)} for cause in self.causes],
            "lemons": list(self.lemons),
        }


def kind_of(run: JobRun, month: Month) -> str:
    """What became of the hours of a run: one of ``KINDS``."""
    if run.account == PROOF:
        return "checks"
    if run.end is None or run.end > month.end:
        return "running"
    if run.state in (JobState.PREEMPTED, JobState.REQUEUED) or not has_ended(run.state):
        return "requeued"
    if run.state == JobState.COMPLETED:
        return "completed"
    row = job_states().get(run.state)
    return "stopped" if row is not None and row.stopped else "failed"


def units_of(tres: str, unit: str, cpus: int = 0) -> int:
    """How many GPUs or CPUs a list of TRES has."""
    return counts(tres).get(GPU, 0) if unit == "GPU" else counts(tres).get("cpu", cpus)


def hours_of(events: Iterable[Outage], month: Month, unit: str) -> float:
    """Hours of the unit in the time of events."""
    return sum(units_of(e.tres, unit) * month.seconds(e.start, e.end) for e in events) / _HOUR


def add_run(run: JobRun, month: Month, unit: str, shares: Iterable[Usage]) -> None:
    """Count one run in each of these shares."""
    units = units_of(run.tres, unit, run.cpus)
    label = array_label(run.label)
    pending = label.tasks.counted()[0] if label is not None and label.pending else 1
    kind = kind_of(run, month)
    ran = month.seconds(run.start, run.end)
    began = run.start is not None and month.begin <= run.start < month.end
    waited = month.seconds(run.eligible, run.start or run.end)
    cpu_hours = units_of(run.tres, "CPU", run.cpus) * ran / _HOUR
    without = not units_of(run.tres, "GPU")
    for share in shares:
        share.cpu_hours += cpu_hours
        share.gpuless += cpu_hours if without else 0.0
        if ran or began:
            share.runs[kind] += 1
            share.hours[kind] += units * ran / _HOUR
        share.waited += units * pending * waited / _HOUR
        if began and run.start is not None and run.eligible is not None:
            share.waits.append(max(0, run.start - run.eligible))


def down_nodes(seen: Iterable[Outage], month: Month) -> dict[str, Down]:
    """How long each node took no jobs in the month; those without an outage are left out."""
    nodes: dict[str, Down] = {}
    for outage in seen:
        seconds = month.seconds(outage.start, outage.end)
        if not seconds:
            continue
        before = nodes.get(outage.node, Down(0.0, 0, ()))
        cause = cause_of(outage)
        causes = (*before.causes, *([cause.title] if cause else []))
        hours = before.hours + seconds / _HOUR
        nodes[outage.node] = Down(hours, before.times + 1, tuple(dict.fromkeys(causes)))
    return dict(sorted(nodes.items()))


def lost_by_cause(seen: Iterable[Outage], month: Month, unit: str) -> tuple[Lost, ...]:
    """Hours of the month that each cause took, the costliest first."""
    by_cause: dict[str, tuple[Cause, list[Outage]]] = {}
    for outage in seen:
        if month.seconds(outage.start, outage.end):
            without = "planned" if outage.reason else "no reason is recorded"
            cause = cause_of(outage) or Cause("", without)
            by_cause.setdefault(cause.id or without, (cause, []))[1].append(outage)
    rows = (
        Lost(
            cause.id,
            cause.title,
            len({outage.node for outage in had}),
            len(had),
            hours_of(had, month, unit),
        )
        for cause, had in by_cause.values()
    )
    return tuple(sorted(rows, key=lambda row: (-row.hours, row.title)))


async def usage_report(spec: ClusterSpec, month: str, *, price: float | None = None) -> UsageReport:
    """What became of the cluster's time in a month: used for what, waited for, idle and down.

    Args:
        spec: the cluster.
        month: ``2026-11``, in the controller's time zone; of one that goes on, until now.
        price: of an hour of the unit, for costs by account.

    Raises:
        CorralError: USAGE, the cluster has no accounting, or no such month; COMMAND_FAILED,
            slurmdbd does not answer.
    """
    require_accounting(spec, "the report")
    if not _MONTH.fullmatch(month):
        raise CorralError(
            Code.USAGE, f"{month!r} is not a month", hint="corral report --month 2026-11"
        )
    async with await Connection.open(spec) as session:
        session.require_running()
        begin, end, now = await _ask(session, month_bounds(f"{month}-01"))
        if begin >= now:
            raise CorralError(Code.USAGE, f"{month} is still to come", hint="name a past month")
        time = Month(month, begin, min(end, now))
        sizes = await _ask(session, cluster_sizes(time.first, time.last))
        lost = await _ask(session, outages(time.first, time.last))
        capacity = {unit: hours_of(sizes, time, unit) for unit in ("GPU", "CPU")}
        unit = "GPU" if capacity["GPU"] else "CPU"
        total, accounts = await _jobs(session, time, unit)
    causes = causes_of(lost, len(nodes_of(spec)))
    return UsageReport(
        spec.name,
        time,
        unit,
        capacity[unit],
        hours_of(lost, time, unit),
        total,
        dict(sorted(accounts.items())),
        down_nodes(lost, time),
        price,
        lost_by_cause(lost, time, unit),
        tuple(sorted(node for node, own in causes.items() if len(own) >= CAUSES)),
    )


async def _ask(session: Connection, question: Question[T]) -> T:
    return await answer_to(
        session.fleet,
        session.controller,
        question,
        "asking slurmdbd for the month",
        timeout=ASK_S,
        hint="is slurmdbd up? see: corral status",
    )


async def _jobs(session: Connection, month: Month, unit: str) -> tuple[Usage, dict[str, Usage]]:
    """The shares of all jobs and of each account, counted line by line: a month may have a million.

    Raises:
        CorralError: COMMAND_FAILED.
    """
    total, accounts = Usage(), dict[str, Usage]()
    question = runs(f"m{secrets.token_hex(8)}", month.first, month.last)

    def on_line(line: str) -> None:
        for run in question.parse(line):
            share = accounts.setdefault(run.account, Usage())
            add_run(run, month, unit, (total, share))

    answer = await session.fleet.run(
        session.controller, question.shell, timeout=ASK_S, on_line=on_line
    )
    check(answer, "asking slurmdbd for jobs", hint="is slurmdbd up? see: corral status")
    return total, accounts
