"""Accounts, users and QOS in slurmdbd, compared field by field. Pure.

What Corral makes it marks with the description ``corral``; only that is ever deleted. Accounts,
users and QOS that the file does not name are left alone (docs/guide/users.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corral.hosts.quote import Script, join, sh
from corral.state.base import Change, Context, Seen
from corral.state.slurm_assoc import (
    ASSOC,
    EMPTY,
    EMPTY_QOS,
    MARK,
    NO_LIMIT,
    QOS,
    Account,
    Fields,
    Found,
    Member,
    Quality,
    fields_of,
    parse,
    qos_fields,
    set_of,
)


@dataclass(frozen=True)
class SlurmAccounts:
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
        """``slurm-accounts:<cluster>``."""
        return f"slurm-accounts:{self.cluster}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def probe(self) -> Script:
        """Four lists, each after a line that names it; no list when slurmdbd gives no answer."""
        return sh(
            's() {{ timeout 10 sacctmgr -nP show "$@" 2>/dev/null; }}; '
            "echo @assoc; s assoc cluster={cluster} format={assoc}; "
            "echo @account; s account format=Account,Description; "
            "echo @user; s user format=User,DefaultAccount; "
            "echo @qos; s qos format={qos}",
            cluster=self.cluster,
            assoc=ASSOC,
            qos=QOS,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Add what is missing, set what differs, delete what Corral made and nobody declares."""
        found = parse(seen.text)
        steps = [*self._qos(found), *self._accounts(found), *self._users(found)]
        steps += [*self._gone(found)]
        if not steps:
            return None
        words = [step.words for step in steps]
        more = f" and {len(words) - 3} more" if len(words) > 3 else ""  # noqa: PLR2004
        return Change(
            self.id,
            f"Slurm accounts: {', '.join(words[:3])}{more}",
            "\n".join(step.before for step in steps if step.before),
            "\n".join(step.after for step in steps if step.after),
            join([self._cluster(), *(step.script for step in steps)], " && "),
        )

    def _cluster(self) -> Script:
        # slurmctld registers itself too, some time after its start.
        return sh(
            "{{ timeout 30 sacctmgr -iQ add cluster {cluster} >/dev/null 2>&1 || "
            '[ -n "$(timeout 30 sacctmgr -nP show cluster {cluster} format=Cluster)" ]; }}',
            cluster=self.cluster,
        )

    def _qos(self, found: Found) -> Iterator[Step]:
        for one in self.qos:
            if one.name not in found.qos:
                yield _add("QOS", one.name, "qos", [one.name, f"Description={MARK}"], [one.name])
        for one in self.qos:
            wanted = qos_fields(one)
            before = found.qos.get(one.name, EMPTY_QOS)
            yield from _set(f"QOS {one.name}", ["qos", "where", f"name={one.name}"], before, wanted)

    def _accounts(self, found: Found) -> Iterator[Step]:
        there = f"cluster={self.cluster}"
        for one in _parents_first(self.accounts):
            if one.name not in found.accounts:
                more = [one.name, there, f"parent={one.parent}"]
                more += [] if one.name in found.ours else [f"Description={MARK}"]
                more += [] if one.name in found.ours else [f"Organization={MARK}"]
                yield _add("account", one.name, "account", more, [f"account={one.name}", there])
        if not self.limits:
            return
        for one in self.accounts:
            where = ["account", "where", f"name={one.name}", there]
            wanted = fields_of(one) | {"parent": one.parent}
            before = found.accounts.get(one.name, {**EMPTY, "parent": one.parent})
            yield from _set(f"account {one.name}", where, before, wanted)

    def _users(self, found: Found) -> Iterator[Step]:
        there = f"cluster={self.cluster}"
        for one in self.users:
            before = found.members.get((one.account, one.name))
            if before is None:
                words = [one.name, f"account={one.account}", there]
                check = [f"account={one.account}", f"user={one.name}", there]
                first = [] if one.name in found.defaults else [f"DefaultAccount={one.account}"]
                yield _add(f"{one.name} to", one.account, "user", [*words, *first], check)
            where = ["user", "where", f"name={one.name}", there]
            default = {"DefaultAccount": found.defaults.get(one.name, one.account)}
            yield from _set(one.name, where, default, {"DefaultAccount": one.account})
            if self.limits:
                where.insert(3, f"account={one.account}")
                name = f"{one.name} in {one.account}"
                yield from _set(name, where, before or self._inherited(one, found), fields_of(one))

    def _inherited(self, one: Member, found: Found) -> Fields:
        """What an association that is just made begins with: its account's QOS."""
        account = next((a for a in self.accounts if a.name == one.account), None)
        if account is None:
            return EMPTY
        inherited = {"QosLevel": set_of(account.qos), "DefaultQOS": account.default_qos}
        return {**EMPTY, **inherited}

    def _gone(self, found: Found) -> Iterator[Step]:
        """What Corral made and the file names no longer; accounts that others use stay."""
        there = f"cluster={self.cluster}"
        declared = {one.name for one in self.accounts}
        mine = {one.name: one.account for one in self.users}
        old = [name for name in found.accounts if name in found.ours and name not in declared]
        gone = found.qos_ours - {one.name for one in self.qos}
        yield from self._defaults_off(found, gone)
        for account, user in found.members:
            if account in found.ours and mine.get(user, account) != account:
                words = ["delete", "user", "where", f"name={user}", f"account={account}", there]
                yield Step(f"{user} out of {account}", f"{user} in {account}", "", _run(words))
        strangers = {account for account, user in found.members if user not in mine}
        parents = {fields["parent"] for n, fields in found.accounts.items() if n not in old}
        for name in reversed(old):
            if name not in strangers and name not in parents:
                words = ["delete", "account", "where", f"name={name}", there]
                yield Step(f"delete account {name}", f"account {name}", "", _run(words))
        for name in sorted(gone):
            words = ["delete", "qos", "where", f"name={name}"]
            yield Step(f"delete QOS {name}", f"QOS {name}", "", _run(words))

    def _defaults_off(self, found: Found, gone: frozenset[str]) -> Iterator[Step]:
        """No association keeps a QOS that goes as its default: sacctmgr would not delete it.

        Who the file names no longer stays a member of the account; who it names has been set.
        """
        there = f"cluster={self.cluster}"
        held = {(one.account, one.name) for one in self.users if self.limits}
        held |= {(one.name, "") for one in self.accounts if self.limits}
        every = {**found.members, **{(name, ""): seen for name, seen in found.accounts.items()}}
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
    left = {one.name: one for one in accounts}
    while left:
        ready = [one for one in left.values() if one.parent not in left] or list(left.values())
        for one in ready:
            yield left.pop(one.name)


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


def _set(name: str, where: list[str], before: Fields, wanted: Fields) -> Iterator[Step]:
    """Set the fields that differ; TRES of one limit go together."""
    changed = {key: value for key, value in wanted.items() if before.get(key, "") != value}
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
