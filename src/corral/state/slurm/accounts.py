"""Accounts, users and QOS in slurmdbd: what is there, what must be, field by field. Pure.

What Corral makes it marks with the description ``corral``; only that is ever deleted. Accounts,
users and QOS that the file does not name are left alone (docs/guide/users.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from corral.durations import seconds
from corral.hosts.quote import Script, call, join, sh
from corral.slurm.records import Association
from corral.slurm.text import readable_associations, show_associations
from corral.slurm.tres import entries, mib
from corral.state.base import (
    Change,
    Context,
    Seen,
    Standalone,
)

MARK: Final = "corral"
TOP: Final = "root"
NO_LIMIT: Final = "-1"
TRES: Final = ("cpu", "gres/gpu", "mem", "node")
"""Kinds of resources whose limits are managed; limits on others (billing, licenses) stay."""

SAVED: Final = call("state/people-saved.sh", "people_saved")
"""A backup controller knows them from now on."""

QOS: Final = (
    "Name,Description,Priority,Preempt,MaxWall,GrpTRES,GrpJobs,GrpSubmit,"
    "MaxTRESPU,MaxJobsPU,MaxSubmitPU"
)
_GROUP: Final = ("GrpTRES", "GrpJobs", "GrpSubmitJobs")
_PER_USER: Final = ("MaxTRESPerUser", "MaxJobsPerUser", "MaxSubmitJobsPerUser")

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
    """An account with its share, its limits and the QOS its users may ask for.

    ``own``: it is Corral's, and held to this also where the file declares no limits.
    """

    name: str
    parent: str = TOP
    fair_share: int = 1
    limit: Limit = Limit()
    qos: tuple[str, ...] = ("normal",)
    default_qos: str = ""
    own: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """A user in one account; ``own`` as of the account."""

    name: str
    account: str
    fair_share: int = 1
    limit: Limit = Limit()
    qos: tuple[str, ...] = ("normal",)
    default_qos: str = ""
    own: bool = False


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
class ExistingAccounts:
    """What slurmdbd holds for the cluster: fields by account, by (account, user) and by QOS."""

    accounts: Mapping[str, Fields] = field(default_factory=dict[str, Fields])
    members: Mapping[tuple[str, str], Fields] = field(default_factory=dict[tuple[str, str], Fields])
    qos: Mapping[str, Fields] = field(default_factory=dict[str, Fields])
    ours: frozenset[str] = frozenset()
    qos_ours: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])


def parse(text: str) -> ExistingAccounts:
    """Read what the probe printed."""
    texts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("@"):
            lines = texts.setdefault(line[1:], [])
        elif line.strip():
            lines.append(line)
    lists = {name: [line.split("|") for line in lines] for name, lines in texts.items()}
    accounts: dict[str, Fields] = {}
    members: dict[tuple[str, str], Fields] = {}
    for seen in readable_associations("\n".join(texts.get("assoc", []))):
        fields = _association_fields(seen)
        if seen.user:
            members[seen.account, seen.user] = fields
        else:
            accounts[seen.account] = {**fields, "parent": seen.parent}
    accounts.pop(TOP, None)
    return ExistingAccounts(
        accounts,
        members,
        {row[0]: _qos_seen(row) for row in lists.get("qos", [])},
        _marked(lists.get("account", [])),
        _marked(lists.get("qos", [])),
        {row[0]: row[1] for row in lists.get("user", []) if row[1:]},
    )


def _association_fields(seen: Association) -> Fields:
    counts = ("" if count is None else str(count) for count in (seen.jobs, seen.submitted))
    return {
        "Fairshare": seen.share,
        **_limit_fields([seen.tres, *counts], _GROUP),
        "QosLevel": set_of(seen.qos),
        "DefaultQOS": seen.default_qos,
    }


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
    for name, value in entries(tres).items():
        if name in TRES:
            limits[f"{word} {name}"] = _mib(value) if name == "mem" else value
    return limits | {jobs_word: jobs or NO_LIMIT, submitted_word: submitted or NO_LIMIT}


def _mib(text: str) -> str:
    size = mib(text)
    return text if size is None else str(round(size))


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


@dataclass(frozen=True)
class SlurmAccounts(Standalone):
    """The cluster's accounts, users and QOS in slurmdbd.

    Attributes:
        cluster: Slurm's ClusterName.
        accounts: in any order.
        users: each in one account.
        qos: in addition to those that are there.
        limits: the file declares shares or limits: what is there is held to it; else accounts and
            users are only made.
    """

    cluster: str
    accounts: tuple[Account, ...]
    users: tuple[Member, ...]
    qos: tuple[Quality, ...] = ()
    limits: bool = True

    @property
    def id(self) -> str:
        return f"slurm-accounts:{self.cluster}"

    def probe(self) -> Script:
        """Four lists, each after a line that names it; no list when slurmdbd gives no answer."""
        return call(
            "state/databases.sh",
            "accounts_probe",
            QOS,
            *show_associations(f"cluster={self.cluster}"),
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Add what is missing, set what differs, delete what Corral made and nobody declares."""
        existing = parse(seen.text)
        steps = [*self._qos(existing), *self._accounts(existing), *self._users(existing)]
        steps += [*self._gone(existing)]
        if not steps:
            return None
        words = [step.words for step in steps]
        more = f" and {len(words) - 3} more" if len(words) > 3 else ""  # noqa: PLR2004
        return Change(
            self.id,
            f"Slurm accounts: {', '.join(words[:3])}{more}",
            "\n".join(step.before for step in steps if step.before),
            "\n".join(step.after for step in steps if step.after),
            join([self._cluster(), *(step.script for step in steps), SAVED], " && "),
        )

    def _cluster(self) -> Script:
        # slurmctld registers itself too, some time after its start.
        return sh(
            "{{ timeout 30 sacctmgr -iQ add cluster {cluster} >/dev/null 2>&1 || "
            '[ -n "$(timeout 30 sacctmgr -nP show cluster {cluster} format=Cluster)" ]; }}',
            cluster=self.cluster,
        )

    def _qos(self, existing: ExistingAccounts) -> Iterator[Step]:
        for qos in self.qos:
            if qos.name not in existing.qos:
                yield _add("QOS", qos.name, "qos", [qos.name, f"Description={MARK}"], [qos.name])
        for qos in self.qos:
            desired = qos_fields(qos)
            before = existing.qos.get(qos.name, EMPTY_QOS)
            yield from _set(
                f"QOS {qos.name}", ["qos", "where", f"name={qos.name}"], before, desired
            )

    def _accounts(self, existing: ExistingAccounts) -> Iterator[Step]:
        there = f"cluster={self.cluster}"
        for account in _parents_first(self.accounts):
            if account.name not in existing.accounts:
                more = [account.name, there, f"parent={account.parent}"]
                more += [] if account.name in existing.ours else [f"Description={MARK}"]
                more += [] if account.name in existing.ours else [f"Organization={MARK}"]
                yield _add(
                    "account", account.name, "account", more, [f"account={account.name}", there]
                )
        for account in self.accounts:
            if not (self.limits or account.own):
                continue
            where = ["account", "where", f"name={account.name}", there]
            desired = fields_of(account) | {"parent": account.parent}
            before = existing.accounts.get(account.name, {**EMPTY, "parent": account.parent})
            yield from _set(f"account {account.name}", where, before, desired)

    def _users(self, existing: ExistingAccounts) -> Iterator[Step]:
        there = f"cluster={self.cluster}"
        for member in self.users:
            before = existing.members.get((member.account, member.name))
            if before is None:
                words = [member.name, f"account={member.account}", there]
                check = [f"account={member.account}", f"user={member.name}", there]
                first = (
                    [] if member.name in existing.defaults else [f"DefaultAccount={member.account}"]
                )
                yield _add(f"{member.name} to", member.account, "user", [*words, *first], check)
            where = ["user", "where", f"name={member.name}", there]
            default = {"DefaultAccount": existing.defaults.get(member.name, member.account)}
            yield from _set(member.name, where, default, {"DefaultAccount": member.account})
            if self.limits or member.own:
                where.insert(3, f"account={member.account}")
                name = f"{member.name} in {member.account}"
                yield from _set(
                    name, where, before or self._inherited(member, existing), fields_of(member)
                )

    def _inherited(self, member: Member, existing: ExistingAccounts) -> Fields:
        """What an association that is just made begins with: its account's QOS."""
        account = next((a for a in self.accounts if a.name == member.account), None)
        if account is None:
            return EMPTY
        inherited = {"QosLevel": set_of(account.qos), "DefaultQOS": account.default_qos}
        return {**EMPTY, **inherited}

    def _gone(self, existing: ExistingAccounts) -> Iterator[Step]:
        """What Corral made and the file names no longer; accounts that others use stay."""
        there = f"cluster={self.cluster}"
        declared = {declared_account.name for declared_account in self.accounts}
        mine = {member.name: member.account for member in self.users}
        old = [name for name in existing.accounts if name in existing.ours and name not in declared]
        gone = existing.qos_ours - {qos.name for qos in self.qos}
        yield from self._defaults_off(existing, gone)
        for account, user in existing.members:
            if account in existing.ours and mine.get(user, account) != account:
                words = ["delete", "user", "where", f"name={user}", f"account={account}", there]
                yield Step(f"{user} out of {account}", f"{user} in {account}", "", _run(words))
        strangers = {account for account, user in existing.members if user not in mine}
        parents = {fields["parent"] for n, fields in existing.accounts.items() if n not in old}
        for name in reversed(old):
            if name not in strangers and name not in parents:
                words = ["delete", "account", "where", f"name={name}", there]
                yield Step(f"delete account {name}", f"account {name}", "", _run(words))
        for name in sorted(gone):
            words = ["delete", "qos", "where", f"name={name}"]
            yield Step(f"delete QOS {name}", f"QOS {name}", "", _run(words))

    def _defaults_off(self, existing: ExistingAccounts, gone: frozenset[str]) -> Iterator[Step]:
        """No association keeps a QOS that goes as its default: sacctmgr would not delete it.

        Who the file names no longer stays a member of the account; who it names has been set.
        """
        there = f"cluster={self.cluster}"
        held = {(member.account, member.name) for member in self.users if self.limits or member.own}
        held |= {(a.name, "") for a in self.accounts if self.limits or a.own}
        every = {
            **existing.members,
            **{(name, ""): seen for name, seen in existing.accounts.items()},
        }
        for (account, user), fields in every.items():
            if fields["DefaultQOS"] not in gone or (account, user) in held:
                continue
            where = ["account", "where", f"name={account}", there]
            if user:
                where = ["user", "where", f"name={user}", f"account={account}", there]
            name = f"{user} in {account}" if user else f"account {account}"
            yield from _set(name, where, fields, {"DefaultQOS": ""})


@dataclass(frozen=True, slots=True)
class Step:
    """One call of sacctmgr: in words, with what is there before and after it."""

    words: str
    before: str
    after: str
    script: Script


def _parents_first(accounts: tuple[Account, ...]) -> Iterator[Account]:
    """Each account after its parent."""
    left = {account.name: account for account in accounts}
    while left:
        ready = [account for account in left.values() if account.parent not in left] or list(
            left.values()
        )
        for account in ready:
            yield left.pop(account.name)


def _run(words: list[str]) -> Script:
    return sh("timeout 60 sacctmgr -iQ {words}", words=words)


def _add(what: str, name: str, kind: str, words: list[str], check: list[str]) -> Step:
    """Add; that it is there already, after a crash, is not a failure (sacctmgr exits 1 then)."""
    show = ["qos", f"name={name}"] if kind == "qos" else ["assoc", *check]
    script = sh(
        "{{ timeout 60 sacctmgr -iQ add {kind} {words} || "
        '[ -n "$(timeout 30 sacctmgr -nP show {show})" ]; }}',
        kind=kind,
        words=words,
        show=show,
    )
    return Step(f"add {what} {name}", "", f"{what} {name}", script)


def _set(name: str, where: list[str], before: Fields, desired: Fields) -> Iterator[Step]:
    """Set the fields that differ; TRES of one limit go together."""
    changed = {key: value for key, value in desired.items() if before.get(key, "") != value}
    if not changed:
        return
    words: dict[str, list[str]] = {}
    for key, value in changed.items():
        word, _, tres = key.partition(" ")
        words.setdefault(word, []).append(f"{tres}={value}" if tres else _value(word, value))
    settings = [f"{word}={','.join(values)}" for word, values in words.items()]
    shown = ", ".join(f"{key} {_shown(key, value)}" for key, value in changed.items())
    yield Step(
        f"{name}: {shown}",
        f"{name}: " + ", ".join(f"{key} {_shown(key, before.get(key, ''))}" for key in changed),
        f"{name}: {shown}",
        _run(["modify", *where, "set", *settings]),
    )


def _value(word: str, value: str) -> str:
    if word == "MaxWall" and value != NO_LIMIT:
        return str(int(value) // 60)  # sacctmgr takes minutes
    if word == "DefaultQOS" and not value:
        return NO_LIMIT
    return value


def _shown(key: str, value: str) -> str:
    if key == "MaxWall" and value != NO_LIMIT:
        return f"{int(value or 0) // 60} min"
    return "none" if value in (NO_LIMIT, "") else value
