"""slurmctld's own figures and the accounts' shares, as metrics. Pure.

Of sdiag, so of every Slurm; slurmctld's own endpoint has most of them too, from 25.11 on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from corral.slurm.policy import EVENTS, Scheduler, Share
from corral.slurm.records import Job
from corral.web.exposition import MOST, Family, Labels

_US: Final = 1e-6
VALUES: Final[tuple[tuple[str, str, str, str, float], ...]] = (
    ("corral_slurmctld_threads", "gauge", "Server threads of slurmctld.",
     "threads", 1),
    ("corral_slurmctld_agent_queue_messages", "gauge", "Messages to nodes that are queued.",
     "agents", 1),
    ("corral_slurmctld_agent_threads", "gauge", "Threads that send messages to nodes.",
     "agent_threads", 1),
    ("corral_slurmdbd_queue_messages", "gauge", "Messages that are queued for slurmdbd.",
     "database", 1),
    ("corral_scheduler_cycle_seconds", "gauge", "Time of the main scheduler's last cycle.",
     "main.last", _US),
    ("corral_scheduler_cycle_max_seconds", "gauge", "Its longest cycle since the figures began.",
     "main.longest", _US),
    ("corral_scheduler_cycle_mean_seconds", "gauge", "Its mean cycle since the figures began.",
     "main.mean", _US),
    ("corral_scheduler_cycles_total", "counter", "Cycles of the main scheduler.",
     "main.count", 1),
    ("corral_scheduler_queue_jobs", "gauge", "Length of the queue in its last cycle.",
     "main.queue", 1),
    ("corral_backfill_cycle_seconds", "gauge", "Time of the backfill scheduler's last cycle.",
     "backfill.last", _US),
    ("corral_backfill_cycle_max_seconds", "gauge", "Its longest cycle since the figures began.",
     "backfill.longest", _US),
    ("corral_backfill_cycle_mean_seconds", "gauge", "Its mean cycle since the figures began.",
     "backfill.mean", _US),
    ("corral_backfill_cycles_total", "counter", "Cycles of the backfill scheduler.",
     "backfill.count", 1),
    ("corral_backfill_last_time_seconds", "gauge", "When its last cycle was.",
     "backfill.last_at", 1),
    ("corral_backfill_jobs_total", "counter", "Jobs that it started.",
     "backfilled", 1),
    ("corral_backfill_depth_jobs", "gauge", "Jobs that its last cycle looked at.",
     "backfill.last_depth", 1),
    ("corral_backfill_queue_jobs", "gauge", "Length of the queue in its last cycle.",
     "backfill.queue", 1),
)  # fmt: skip
MOST_TYPES: Final = 100
"""Message types that have series; Slurm has more, of which a cluster uses about 60."""


def scheduler_families(scheduler: Scheduler) -> list[Family]:
    """What sdiag prints. Its counters begin again at midnight (UTC) and at slurmctld's start."""
    events: dict[Labels, float] = {
        (("event", event),): value
        for event in EVENTS
        if (value := (scheduler.jobs or {}).get(event)) is not None
    }
    families = [
        Family(name, kind, about, {(): value * factor})
        for name, kind, about, field, factor in VALUES
        if (value := attrgetter(field)(scheduler)) is not None
    ]
    calls = sorted(scheduler.by_type, key=lambda call: -call.count)[:MOST_TYPES]
    return [
        *families,
        Family("corral_slurmctld_jobs_total", "counter", "Jobs by what happened to them.", events),
        Family(
            "corral_slurmctld_rpcs_total",
            "counter",
            "Requests to slurmctld by type of message.",
            {(("type", call.name),): call.count for call in calls},
        ),
        Family(
            "corral_slurmctld_rpc_seconds_total",
            "counter",
            "Time that slurmctld spent on them.",
            {(("type", call.name),): call.total * _US for call in calls},
        ),
    ]


def share_families(shares: Iterable[Share], jobs: Iterable[Job]) -> list[Family]:
    """The shares of all accounts, and of users with pending jobs in an account.

    Args:
        shares: of accounts and users.
        jobs: all that slurmctld knows.
    """
    pending = Counter((job.account, job.user) for job in jobs if job.waiting)
    asked = {key for key, _ in pending.most_common(MOST)}
    accounts: list[Share] = []
    users: dict[Labels, float] = {}
    for share in shares:
        if not share.user:
            accounts.append(share)
        elif share.factor is not None and (share.account, share.user) in asked:
            users[("user", share.user), ("account", share.account)] = share.factor
    accounts = sorted(accounts, key=lambda share: -(share.effective or 0))[:MOST]

    def each(name: str, about: str, values: list[float | None]) -> Family:
        named = zip(accounts, values, strict=True)
        by_account = {(("account", a.account),): v for a, v in named if v is not None}
        return Family(f"corral_account_{name}_ratio", "gauge", about, by_account)

    about = "The account's part that it {}, of its siblings' (fair tree) or of all."
    return [
        each("shares", about.format("may use"), [a.part for a in accounts]),
        each("usage", about.format("has used"), [a.effective for a in accounts]),
        Family(
            "corral_user_fair_share_ratio",
            "gauge",
            "Fair-share factor of users with pending jobs, 1: used nothing of their share.",
            users,
        ),
    ]
