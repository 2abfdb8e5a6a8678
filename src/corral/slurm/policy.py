"""What Slurm lets users have: limits, QOS, shares, reservations, licences, and how it schedules.

Records only; ``slurm.rest.policy`` reads them from JSON, ``slurm.diagnostics`` from what sdiag and
sshare print. Times are unix seconds, lengths are seconds, memory
is MiB. A limit that is not set has no ``Limit``: it is unlimited there, or inherited. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from corral.slurm.records import Association
from corral.tables import Row, read_table

ROOT: Final = "root"
"""The account above all others."""
EVENTS: Final = MappingProxyType(
    {
        "submitted": "submitted",
        "started": "started",
        "completed": "completed",
        "canceled": "cancelled",
        "failed": "failed",
    }
)
"""What happens to jobs, as slurmctld counts it: sdiag's words, and those of the page."""
COUNTED: Final = (*EVENTS, "pending", "running")
"""What slurmctld counts jobs by, in sdiag's words."""


class KnownLimit(Row):
    """A row of ``limits.yaml``, which explains each key."""

    name: str
    bounds: str
    means: str
    association: str = ""
    qos: str = ""
    qos_since: int = 0
    minutes: bool = False


@cache
def known_limits() -> Mapping[str, KnownLimit]:
    """Limits by name, in the order in which they are shown."""
    rows = read_table("corral.slurm", "limits.yaml", tuple[KnownLimit, ...])
    return MappingProxyType({row.name: row for row in rows})


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit, of an association or a QOS.

    Attributes:
        name: as sacctmgr(1) writes it: ``GrpTRES``, ``MaxJobs``.
        resource: of a limit on resources which one: ``cpu``, ``gres/gpu``; "" of any other.
        value: how much; seconds of a wall clock, minutes of a resource in ``...Mins``.
    """

    name: str
    resource: str
    value: int


@dataclass(frozen=True, slots=True)
class Member:
    """An association with all its limits.

    Attributes:
        of: account, user, parent, share and QOS.
        partition: the one for which it holds, "" for all.
        is_default: the account of jobs that name none.
        limits: those set; slurmdbd includes limits of each job (``Max...``) set on accounts above.
    """

    of: Association
    partition: str = ""
    is_default: bool = False
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Qos:
    """A QOS.

    Attributes:
        preempts: QOS whose jobs it may stop; preempt_mode: how, "" as the cluster does.
        usage_factor: how much of their time jobs are charged with.
        grace: seconds between the notice and the end of a preempted job.
        unreported: limits that the answer's API version does not have: unknown, not unlimited.
    """

    name: str
    description: str = ""
    priority: int = 0
    preempts: tuple[str, ...] = ()
    preempt_mode: str = ""
    usage_factor: float | None = None
    grace: int = 0
    flags: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    unreported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """The fair share of an account, or of a user in one.

    Attributes:
        raw: shares assigned; None where it uses those of its parent.
        part: of its siblings' shares together, 0 to 1.
        usage: of all usage, 0 to 1, old usage counted less (PriorityDecayHalfLife).
        effective: what the fair-share plugin compares with ``part``: of its siblings' usage (fair
            tree) or of all (classic).
        factor: 0 to 1, the higher the sooner jobs start; None for accounts.
        minutes: resource minutes that count against ``GrpTRESMins``, by resource.
    """

    account: str
    user: str = ""
    raw: int | None = None
    part: float | None = None
    usage: float | None = None
    effective: float | None = None
    factor: float | None = None
    minutes: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes, cores or licences that are kept for somebody.

    Attributes:
        users, accounts: for whom; a name with ``-`` in front is kept out.
        start_local, end_local: the same times by the controller's clock, where a command prints
            those; ``start`` and ``end`` are not known then.
        length: seconds from start to end, as the command prints it.
    """

    name: str
    start: int | None = None
    end: int | None = None
    nodes: str = ""
    node_count: int = 0
    cores: int = 0
    partition: str = ""
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    licenses: str = ""
    flags: tuple[str, ...] = ()
    start_local: str = ""
    end_local: str = ""
    length: int | None = None


@dataclass(frozen=True, slots=True)
class License:
    """A licence that Slurm counts.

    Attributes:
        reserved: of the total, kept by reservations.
        remote: it is a server's, as slurmdbd was informed of it.
    """

    name: str
    total: int = 0
    used: int = 0
    free: int = 0
    reserved: int = 0
    remote: bool = False


@dataclass(frozen=True, slots=True)
class Cycle:
    """A kind of scheduling cycle of slurmctld; lengths in microseconds.

    Attributes:
        count: since the statistics were reset; last_at: unix seconds, None where not reported.
        depth: jobs tested in a cycle, mean; last_depth: in the last one (backfill alone).
        queue: jobs pending at the last cycle.
        exits: why cycles ended, by Slurm's word.
    """

    count: int | None = None
    last: int | None = None
    mean: int | None = None
    longest: int | None = None
    depth: int | None = None
    last_depth: int | None = None
    queue: int | None = None
    last_at: int | None = None
    exits: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Requests to slurmctld of one type, or of one user; lengths in microseconds."""

    name: str
    count: int = 0
    mean: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Scheduler:
    """What sdiag(1) prints; None: not reported.

    Attributes:
        since: when the counters were reset.
        threads: of slurmctld, busy with requests.
        agents: messages to nodes that wait to be sent; agent_threads: those that send them.
        database: messages to slurmdbd that wait to be sent.
        jobs: submitted, started, completed, canceled, failed since then; pending, running now.
        main, backfill: the two schedulers.
        backfilled: jobs that backfill started since then.
        by_type, by_user: requests, those that took most time first.
    """

    since: int | None = None
    threads: int | None = None
    agents: int | None = None
    agent_threads: int | None = None
    database: int | None = None
    jobs: Mapping[str, int] | None = None
    main: Cycle = Cycle()
    backfill: Cycle = Cycle()
    backfilled: int | None = None
    by_type: tuple[Call, ...] = ()
    by_user: tuple[Call, ...] = ()


def accounts_above(account: str, members: Iterable[Member]) -> tuple[str, ...]:
    """An account and those above it, up to ``root``."""
    parents = {m.of.account: m.of.parent for m in members if not m.of.user}
    chain: list[str] = []
    while account and account not in chain:
        chain.append(account)
        account = parents.get(account, "")
    return tuple(chain)


def accounts_below(account: str, members: Sequence[Member]) -> frozenset[str]:
    """An account and those below it: their jobs count against its limits."""
    below = {account}
    added = True
    while added:
        more = {m.of.account for m in members if not m.of.user and m.of.parent in below} - below
        below |= more
        added = bool(more)
    return frozenset(below)
