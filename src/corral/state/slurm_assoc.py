"""What slurmdbd holds, and what should be there, as fields by sacctmgr's own words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from corral.slurm.duration import seconds

MARK: Final = "corral"
TOP: Final = "root"
NO_LIMIT: Final = "-1"
TRES: Final = ("cpu", "gres/gpu", "mem", "node")
"""Kinds of resources whose limits are managed; limits on others (billing, licenses) stay."""

ASSOC: Final = "Account,User,ParentName,Share,GrpTRES,GrpJobs,GrpSubmit,QOS,DefaultQOS"
QOS: Final = (
    "Name,Description,Priority,Preempt,MaxWall,GrpTRES,GrpJobs,GrpSubmit,"
    "MaxTRESPU,MaxJobsPU,MaxSubmitPU"
)
_GROUP: Final = ("GrpTRES", "GrpJobs", "GrpSubmitJobs")
_PER_USER: Final = ("MaxTRESPerUser", "MaxJobsPerUser", "MaxSubmitJobsPerUser")
_UNITS: Final = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}

Fields = Mapping[str, str]
"""What sacctmgr sets, by its own word; TRES one by one, as ``GrpTRES gres/gpu``."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits on jobs and resources; -1 and left out: none. ``mem`` is in MiB."""

    tres: tuple[tuple[str, int], ...] = ()
    jobs: int = -1
    submitted: int = -1

    def fields(self, tres: str, jobs: str, submitted: str) -> dict[str, str]:
        """As fields, under sacctmgr's words for them."""
        limits = {f"{tres} {name}": NO_LIMIT for name in TRES}
        limits |= {f"{tres} {name}": str(value) for name, value in self.tres}
        return limits | {jobs: str(self.jobs), submitted: str(self.submitted)}


@dataclass(frozen=True, slots=True)
class Account:
    """An account with its share, its limits and the QOS its users may ask for."""

    name: str
    parent: str = TOP
    fair_share: int = 1
    limit: Limit = Limit()
    qos: tuple[str, ...] = ("normal",)
    default_qos: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A user in one account."""

    name: str
    account: str
    fair_share: int = 1
    limit: Limit = Limit()
    qos: tuple[str, ...] = ("normal",)
    default_qos: str = ""


@dataclass(frozen=True, slots=True)
class Quality:
    """A QOS. ``max_wall`` is ``D-HH:MM:SS``, "" for no limit."""

    name: str
    priority: int = 0
    preempts: tuple[str, ...] = ()
    max_wall: str = ""
    limit: Limit = Limit()
    per_user: Limit = Limit()


@dataclass(frozen=True, slots=True)
class Found:
    """What slurmdbd holds for the cluster: fields by account, by (account, user) and by QOS."""

    accounts: Mapping[str, Fields] = field(default_factory=dict[str, Fields])
    members: Mapping[tuple[str, str], Fields] = field(default_factory=dict[tuple[str, str], Fields])
    qos: Mapping[str, Fields] = field(default_factory=dict[str, Fields])
    ours: frozenset[str] = frozenset()
    qos_ours: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])


def parse(text: str) -> Found:
    """Read what the probe printed."""
    lists: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("@"):
            rows = lists.setdefault(line[1:], [])
        elif line.strip():
            rows.append(line.split("|"))
    accounts: dict[str, Fields] = {}
    members: dict[tuple[str, str], Fields] = {}
    for row in lists.get("assoc", []):
        account, user, parent, share, tres, jobs, submitted, qos, default = (*row, *[""] * 9)[:9]
        fields = {
            "Fairshare": share,
            **_limit_fields([tres, jobs, submitted], _GROUP),
            "QosLevel": set_of(qos.split(",")),
            "DefaultQOS": default,
        }
        if user:
            members[account, user] = fields
        else:
            accounts[account] = fields | {"parent": parent}
    accounts.pop(TOP, None)
    return Found(
        accounts,
        members,
        {row[0]: _qos_seen(row) for row in lists.get("qos", [])},
        _marked(lists.get("account", [])),
        _marked(lists.get("qos", [])),
        {row[0]: row[1] for row in lists.get("user", []) if row[1:]},
    )


def _wall(text: str) -> str:
    """A longest time as it is compared: seconds, -1 for none."""
    limit = seconds(text)
    return str(-1 if limit is None else limit)


def _marked(rows: Iterable[list[str]]) -> frozenset[str]:
    return frozenset(row[0] for row in rows if row[1:2] == [MARK])


def _qos_seen(row: list[str]) -> Fields:
    _, _, priority, preempt, wall, *limits = [*row, *[""] * 11][:11]
    return {
        "Priority": priority,
        "Preempt": set_of(preempt.split(",")),
        "MaxWall": _wall(wall),
        **_limit_fields(limits[:3], _GROUP),
        **_limit_fields(limits[3:], _PER_USER),
    }


def _limit_fields(seen: list[str], words: tuple[str, str, str]) -> dict[str, str]:
    """Limits on TRES, running and submitted jobs as sacctmgr prints them, under its words."""
    tres, jobs, submitted = seen
    word, jobs_word, submitted_word = words
    limits = {f"{word} {name}": NO_LIMIT for name in TRES}
    for pair in tres.split(","):
        name, _, value = pair.partition("=")
        if name in TRES:
            limits[f"{word} {name}"] = _mib(value) if name == "mem" else value
    return limits | {jobs_word: jobs or NO_LIMIT, submitted_word: submitted or NO_LIMIT}


def _mib(text: str) -> str:
    """Memory as sacctmgr prints it (``10G``, ``1.50T``, plain is MiB), in MiB."""
    number = text.rstrip("KMGTP")
    try:
        return str(round(float(number) * _UNITS[text[len(number) :] or "M"]))
    except (ValueError, KeyError):
        return text


def set_of(names: Iterable[str]) -> str:
    """Names as one word that compares, whatever their order."""
    return ",".join(sorted(filter(None, names)))


def fields_of(holder: Account | Member) -> dict[str, str]:
    """What an account, or a user in it, should contain."""
    return {
        "Fairshare": str(holder.fair_share),
        **holder.limit.fields(*_GROUP),
        "QosLevel": set_of(holder.qos),
        "DefaultQOS": holder.default_qos,
    }


def qos_fields(qos: Quality) -> dict[str, str]:
    """What a QOS should contain."""
    return {
        "Priority": str(qos.priority),
        "Preempt": set_of(qos.preempts),
        "MaxWall": _wall(qos.max_wall),
        **qos.limit.fields(*_GROUP),
        **qos.per_user.fields(*_PER_USER),
    }


EMPTY: Final[Fields] = fields_of(Account("x"))
"""What an account is made with."""
EMPTY_QOS: Final[Fields] = qos_fields(Quality("x"))
"""What a QOS is made with."""
