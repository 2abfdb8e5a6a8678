"""What a user's jobs have of what limits allow: by user, account and QOS. Pure.

None is unknown, of what is used (Slurm hides jobs) as of a limit (the API version lacks it); a
limit that is not set is unlimited, which is stated apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from corral.slurm.policy import (
    Limit,
    Member,
    Qos,
    Share,
    accounts_above,
    accounts_below,
    known_limits,
)
from corral.slurm.records import Job
from corral.slurm.tres import counts
from corral.web.slurm.arrays import tasks_of

RESOURCES: Final = {"gpus": "gres/gpu", "cpus": "cpu", "memory": "mem", "nodes": "node"}
ALWAYS: Final = ("gpus", "cpus", "jobs", "submitted")
"""Shown also where they are unlimited."""
MOST: Final = 4
"""Snapshots whose jobs are kept in groups: several where each user has a poller."""


@dataclass(slots=True)
class Use:
    """What some jobs have now.

    Attributes:
        jobs: running; submitted: those and the pending ones, tasks of arrays counted one by one.
        amounts: by resource, of the running ones.
        gpus_exact: no job may have more GPUs than are counted.
    """

    jobs: int = 0
    submitted: int = 0
    amounts: Counter[str] = field(default_factory=Counter[str])
    gpus_exact: bool = True

    def of(self, what: str) -> int:
        """One figure: a resource of ``RESOURCES``, jobs or submitted."""
        if what in RESOURCES:
            return self.amounts[RESOURCES[what]]
        return self.jobs if what == "jobs" else self.submitted

    def add(self, other: Use) -> None:
        """Count what other jobs have too."""
        self.jobs += other.jobs
        self.submitted += other.submitted
        self.amounts.update(other.amounts)
        self.gpus_exact = self.gpus_exact and other.gpus_exact


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that count against the same limits, and what they have."""

    user: str
    account: str
    qos: str
    partition: str
    use: Use = field(default_factory=Use)


def grouped(jobs: Iterable[Job]) -> tuple[Group, ...]:
    """What jobs have, by user, account, QOS and partition."""
    lists = dict[tuple[str, str, str, str], list[Job]]()
    for job in jobs:
        if not job.ended:
            key = (job.user, job.account, job.qos, job.partition)
            lists.setdefault(key, []).append(job)
    return tuple(Group(*key, use_of(each)) for key, each in lists.items())


class Counted:
    """Jobs in groups, counted once for all viewers until they change: 50,000 take 0.2 s."""

    def __init__(self) -> None:
        self._kept: list[tuple[Mapping[int, Job], tuple[Group, ...]]] = []

    def of(self, jobs: Mapping[int, Job]) -> tuple[Group, ...]:
        """The groups of a snapshot's jobs."""
        for known, groups in self._kept:
            if known is jobs:
                return groups
        groups = grouped(jobs.values())
        self._kept = [(jobs, groups), *self._kept[: MOST - 1]]
        return groups


def _total(groups: Iterable[Group]) -> Use:
    use = Use()
    for group in groups:
        use.add(group.use)
    return use


def use_of(jobs: Iterable[Job]) -> Use:
    """What jobs have now; those that ended have nothing."""
    use = Use()
    for job in jobs:
        if job.ended:
            continue
        use.submitted += tasks_of(job).count
        if job.waiting:
            continue
        use.jobs += 1
        use.amounts.update({"cpu": job.cpus, "mem": job.memory, "node": job.node_count})
        others = {k: n for k, n in counts(job.tres).items() if k.startswith("gres/gpu:")}
        use.amounts.update({"gres/gpu": job.gpus or 0, **others})
        use.gpus_exact = use.gpus_exact and job.gpus is not None and job.gpus_exact
    return use


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose jobs a row counts, and which limits hold for them.

    Attributes:
        kind: of the row; name: of the account or QOS; account: of a user's or a QOS's row.
        groups: limits on resources; jobs, submitted: limits on numbers of jobs.
    """

    kind: str
    name: str
    account: str
    groups: str
    jobs: tuple[str, ...]
    submitted: tuple[str, ...]


def rows(
    user: str,
    groups: Sequence[Group],
    members: Sequence[Member],
    qoses: Sequence[Qos] | None,
    shares: Sequence[Share] | None,
    *,
    all_seen: bool,
) -> list[dict[str, Any]]:
    """Each association, account and QOS of a user, with what is used of its limits.

    Args:
        user: whose.
        groups: of all jobs that Slurm shows.
        members: all associations.
        qoses: all QOS; None where they are unknown.
        shares: all of sshare; None where they are unknown.
        all_seen: Slurm hides no jobs of others.
    """
    own = [m for m in members if m.of.user == user]
    own.sort(key=lambda m: (not m.is_default, m.of.account, m.partition))
    lines = [_of_user(user, member, groups, shares) for member in own]
    accounts = dict.fromkeys(a for m in own for a in accounts_above(m.of.account, members))
    by_account = {m.of.account: m for m in members if not m.of.user}
    for account in accounts:
        if account in by_account:
            below = accounts_below(account, members)
            inside = [group for group in groups if group.account in below]
            seen = _total(inside) if all_seen else None
            lines.append(_of_account(by_account[account], seen, shares))
    names = {name for m in own for name in m.of.qos}
    names |= {group.qos for group in groups if group.user == user}
    for qos in qoses or ():
        if qos.name in names:
            lines += _of_qos(user, qos, [m.of.account for m in own], groups, all_seen=all_seen)
    return lines


def _of_user(
    user: str, member: Member, groups: Sequence[Group], shares: Sequence[Share] | None
) -> dict[str, Any]:
    account = member.of.account
    mine = [
        group
        for group in groups
        if group.user == user
        and group.account == account
        and (not member.partition or group.partition == member.partition)
    ]
    name = f"{account} in partition {member.partition}" if member.partition else account
    scope = Scope(
        "user", name, account, "GrpTRES", ("GrpJobs", "MaxJobs"), ("GrpSubmitJobs", "MaxSubmitJobs")
    )
    return _row(scope, member.limits, _total(mine), budget=_spent(shares, account, user))


def _of_account(member: Member, use: Use | None, shares: Sequence[Share] | None) -> dict[str, Any]:
    account = member.of.account
    scope = Scope("account", account, account, "GrpTRES", ("GrpJobs",), ("GrpSubmitJobs",))
    # MaxJobs and its kind, set on an account, hold for each of its users: their rows have them.
    limits = [limit for limit in member.limits if limit.name.startswith("Grp")]
    return _row(scope, limits, use, budget=_spent(shares, account, ""))


def _of_qos(
    user: str, qos: Qos, accounts: Sequence[str], groups: Sequence[Group], *, all_seen: bool
) -> list[dict[str, Any]]:
    inside = [group for group in groups if group.qos == qos.name]
    mine = _total(group for group in inside if group.user == user)
    each = [limit for limit in qos.limits if limit.name.endswith(("PerJob", "PerNode", "MaxWall"))]
    per = [("qos-user", "", "PerUser", mine)]
    if any(limit.name.endswith("PerAccount") for limit in qos.limits):
        per += [
            (
                "qos-account",
                account,
                "PerAccount",
                _total(g for g in inside if g.account == account),
            )
            for account in dict.fromkeys(accounts)
        ]
    lines: list[dict[str, Any]] = []
    for kind, account, end, use in per:
        limits = [limit for limit in qos.limits if limit.name.endswith(end)]
        names = (f"MaxTRES{end}", (f"MaxJobs{end}",), (f"MaxSubmitJobs{end}",))
        seen = use if all_seen or kind == "qos-user" else None
        more = each if kind == "qos-user" else []
        lines.append(_row(Scope(kind, qos.name, account, *names), [*limits, *more], seen))
    scope = Scope("qos", qos.name, "", "GrpTRES", ("GrpJobs",), ("GrpSubmitJobs",))
    group = [limit for limit in qos.limits if limit.name.startswith("Grp")]
    everyone = _total(inside) if all_seen else None
    lines.append(_row(scope, group, everyone, unreported=qos.unreported))
    return lines


def _row(
    scope: Scope,
    limits: Sequence[Limit],
    use: Use | None,
    *,
    budget: dict[str, float] | None = None,
    unreported: Sequence[str] = (),
) -> dict[str, Any]:
    cells: list[dict[str, Any]] = []
    shown = set[Limit]()
    numbers = {"jobs": scope.jobs, "submitted": scope.submitted}
    for what in (*RESOURCES, "jobs", "submitted"):
        names = numbers.get(what, (scope.groups,))
        resource = RESOURCES.get(what, "")
        fits = [x for x in limits if x.name in names and x.resource == resource]
        shown.update(fits)
        tightest = min(fits, key=lambda limit: limit.value, default=None)
        if tightest is None and what not in ALWAYS:
            continue
        cells.append(
            {
                "what": what,
                "used": None if use is None else use.of(what),
                "exact": use is None or what != "gpus" or use.gpus_exact,
                "limit": None if tightest is None else tightest.value,
                "by": "" if tightest is None else tightest.name,
                "unknown": tightest is None and any(name in unreported for name in names),
            }
        )
    rest = [limit for limit in limits if limit not in shown]
    return {
        "kind": scope.kind,
        "name": scope.name,
        "account": scope.account,
        "cells": cells,
        "budgets": [_budget(x, budget) for x in rest if x.name == "GrpTRESMins"],
        "more": [limit_dict(limit) for limit in rest if limit.name != "GrpTRESMins"],
    }


def _budget(limit: Limit, spent: dict[str, float] | None) -> dict[str, Any]:
    """Resource minutes, out of sshare's figures; those of a QOS are in no answer of Slurm's."""
    used = None if spent is None else spent.get(limit.resource)
    return {
        "bounds": known_limits()[limit.name].bounds,
        "resource": limit.resource,
        "used": used,
        "limit": limit.value,
    }


def _spent(shares: Sequence[Share] | None, account: str, user: str) -> dict[str, float] | None:
    for share in shares or ():
        if (share.account, share.user) == (account, user) and share.minutes is not None:
            return dict(share.minutes)
    return None


def limit_dict(limit: Limit) -> dict[str, Any]:
    """Its fields in the page's API."""
    return {
        "name": limit.name,
        "bounds": known_limits()[limit.name].bounds,
        "resource": limit.resource,
        "value": limit.value,
    }
