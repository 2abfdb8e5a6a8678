"""What may be chosen of partitions, accounts and QOS: with what is free, and in a filter. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from corral.jobs.allowances import JOBS, SUBMITTED, WALL, Allowance
from corral.slurm.policy import Member, accounts_above
from corral.slurm.records import Job, Node, Partition
from corral.slurm.states.jobs import JobState
from corral.web.slurm import quota
from corral.web.slurm.search import KEYS, is_users

UP: Final = "UP"
_OF_QOS: Final = ("qos-user", "qos")
_COUNTED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"gpus": ("gpus",), "jobs": ("jobs", "submitted")}
)

MOST_WORDS: Final = 500
"""Values of a key of the filter: nobody looks for one among more."""
_SHARED: Final = ("user", "account", "partition", "qos")
"""Keys of which many jobs have one value; a pending job may name several partitions."""


def filter_words(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """The keys of a filter of jobs, each with its values where those are few.

    ``state`` has all of Slurm's. Corral's own jobs are left out.
    """
    shared = {key: set[str]() for key in _SHARED}
    for job in jobs:
        if is_users(job):
            for key, values in shared.items():
                values.update(getattr(job, key).split(","))
    listed = {key: sorted(values - {""})[:MOST_WORDS] for key, values in shared.items()}
    listed["state"] = [state.value.lower() for state in JobState]
    return {key: listed.get(key, []) for key in KEYS}


def partition_choices(
    partitions: Iterable[Partition], nodes: Iterable[Node], default: str
) -> list[dict[str, Any]]:
    """Each partition with what is free on the nodes of it that take jobs.

    ``gpus_free`` is None where Slurm reports the use of GPUs nowhere.

    Args:
        partitions: all.
        nodes: all.
        default: the name of the one that jobs get which name none, "" where it is unknown.
    """
    inside = dict[str, list[Node]]()
    for node in nodes:
        for name in node.partitions:
            inside.setdefault(name, []).append(node)
    return [
        {
            "name": partition.name,
            "state": partition.state,
            "takes_jobs": partition.state in ("", UP),
            "is_default": partition.name == default,
            "max_time": partition.max_time,
            **free_on(inside.get(partition.name, [])),
        }
        for partition in partitions
    ]


def free_on(nodes: Sequence[Node]) -> dict[str, Any]:
    """What is free on those of some nodes that take jobs."""
    usable = [node for node in nodes if node.usable]
    gpus = sum(node.gpus for node in nodes)
    known = [node for node in usable if node.gpus_used is not None]
    free = sum(node.gpus - (node.gpus_used or 0) for node in known)
    return {
        "nodes": len(nodes),
        "idle": sum(not node.cpus_used and not node.gpus_used for node in usable),
        "cpus": sum(node.cpus for node in nodes),
        "cpus_free": sum(max(0, node.cpus - node.cpus_used) for node in usable),
        "gpus": gpus,
        "gpus_free": free if len(known) == len(usable) else None,
    }


def account_choices(
    user: str, members: Sequence[Member], limits: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The accounts that a user may charge, the usual one first, with their QOS and what is left.

    Args:
        user: who submits.
        members: all associations.
        limits: the rows of ``quota.rows`` of the user.
    """
    own = dict[str, list[Member]]()
    for member in members:
        if member.of.user == user:
            own.setdefault(member.of.account, []).append(member)
    listed = [
        {
            "name": account,
            "is_default": any(member.is_default for member in each),
            "qos": sorted({name for member in each for name in member.of.qos}),
            "default_qos": next((m.of.default_qos for m in each if m.of.default_qos), ""),
            **left(row for row in limits if _bounds(row, account, members)),
        }
        for account, each in own.items()
    ]
    return sorted(listed, key=lambda entry: (not entry["is_default"], entry["name"]))


_RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {**quota.RESOURCES, "jobs": JOBS, "submitted": SUBMITTED}
)


@dataclass(frozen=True, slots=True)
class Charge:
    """Whose limits a job counts against; "" of account and QOS: those that a job gets anyway."""

    user: str
    account: str = ""
    qos: str = ""
    partition: str = ""


def allowances(
    charge: Charge, members: Sequence[Member], limits: Sequence[Mapping[str, Any]]
) -> list[Allowance]:
    """The limits that hold for a job, with what is used of them.

    Args:
        charge: whose.
        members: all associations.
        limits: the rows of ``quota.rows`` of the user.
    """
    own = [m for m in members if m.of.user == charge.user]
    usual = next((m for m in own if m.is_default), own[0] if len(own) == 1 else None)
    account = charge.account or (usual.of.account if usual else "")
    default = next((m.of.default_qos for m in own if m.of.account == account), "")
    qos = charge.qos or default
    inside = f"{account} in partition {charge.partition}"
    listed = list[Allowance]()
    for row in limits:
        if row["kind"] in ("user", "account"):
            named = row["kind"] == "user" and row["name"] == inside
            if not (named or _bounds(row, account, members)):
                continue
        elif row["name"] != qos or row["account"] not in ("", account):
            continue
        listed += _allowed(row, charge.user)
    return listed


def _allowed(row: Mapping[str, Any], user: str) -> list[Allowance]:
    """The limits of a row of ``quota.rows``, those of each job too."""
    words = {
        "user": f"user {user} in account {row['name']}",
        "account": f"account {row['name']}",
        "qos-user": f"each user of QOS {row['name']}",
        "qos-account": f"account {row['account']} in QOS {row['name']}",
        "qos": f"QOS {row['name']}",
    }
    whose, name = words[row["kind"]], row["name"]
    each = f"each job in QOS {name}" if row["kind"] == "qos-user" else f"each job of {whose}"
    cells = [
        Allowance(whose, cell["by"], _RESOURCES[cell["what"]], cell["limit"], cell["used"])
        for cell in row["cells"]
        if cell["limit"] is not None
    ]
    more = [
        Allowance(each, limit["name"], limit["resource"] or WALL, limit["value"])
        for limit in row["more"]
        if limit["name"] in ("MaxTRESPerJob", "MaxWall")
    ]
    return cells + more


def qos_choices(
    accounts: Iterable[Mapping[str, Any]], limits: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The QOS that a user may ask for in any of the accounts, and what is left of their limits."""
    names = sorted({name for account in accounts for name in account["qos"]})
    return [
        {
            "name": name,
            **left(row for row in limits if row["kind"] in _OF_QOS and row["name"] == name),
        }
        for name in names
    ]


def _bounds(row: Mapping[str, Any], account: str, members: Sequence[Member]) -> bool:
    """Whether a row's limits hold for the user's jobs in an account, in any partition.

    Those of an association for one partition do not: its row has another name than the account.
    """
    if row["kind"] == "user":
        return row["name"] == account
    return row["kind"] == "account" and row["account"] in accounts_above(account, members)


def left(rows: Iterable[Mapping[str, Any]]) -> dict[str, int | None]:
    """How many GPUs and jobs the tightest of some limits leaves; None: none is known.

    A limit on submitted jobs is one on jobs: ``MaxSubmitJobs=0`` closes an account.
    """
    cells = [cell for row in rows for cell in row["cells"]]
    return {f"{what}_left": _least(counted, cells) for what, counted in _COUNTED.items()}


def _least(counted: Collection[str], cells: Iterable[Mapping[str, Any]]) -> int | None:
    return min(
        (
            max(0, cell["limit"] - cell["used"])
            for cell in cells
            if cell["what"] in counted and cell["limit"] is not None and cell["used"] is not None
        ),
        default=None,
    )
