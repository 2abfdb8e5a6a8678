"""Rules about reservations and licences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from corral.durations import span_seconds
from corral.errors import CorralError
from corral.spec.findings import Level
from corral.spec.nodes import partitions_of, users_of
from corral.spec.rules.people import OWN_ACCOUNT, twice, undeclared
from corral.spec.sections.reservations import Reservation
from corral.spec.slurm.hostlist import count, expand
from corral.spec.tree import Path
from corral.spec.view import Problem, Rule, View, some

REPEATING: Final = ("daily", "weekday", "weekend", "weekly")
_COMPARED_AT_MOST: Final = 200_000
_A_DAY: Final = timedelta(days=1)


def _at(index: int, *path: str | int) -> Path:
    return ("reservations", index, *path)


def _start(reservation: Reservation) -> datetime | None:
    try:
        return datetime.fromisoformat(reservation.start)
    except ValueError:
        return None


def _length(reservation: Reservation) -> timedelta:
    return timedelta(seconds=span_seconds(reservation.duration) or 0)


def license_duplicate(view: View) -> Iterator[Problem]:
    """Two licences of one name."""
    yield from twice([each.name for each in view.spec.licenses], "licenses", "licence")


def reservation_duplicate(view: View) -> Iterator[Problem]:
    """Two reservations of one name."""
    yield from twice([each.name for each in view.spec.reservations], "reservations", "reservation")


def times(view: View) -> Iterator[Problem]:
    """Dates that no calendar has, and no time at all."""
    for i, reservation in enumerate(view.spec.reservations):
        if _start(reservation) is None:
            message = f"there is no {reservation.start.partition('T')[0]}"
            yield Problem(_at(i, "start"), message, "write a day that the month has")
        if not _length(reservation):
            message = f"duration {reservation.duration} is zero"
            yield Problem(_at(i, "duration"), message, 'write for instance "4:00" for four hours')


def past(view: View) -> Iterator[Problem]:
    """Reservations that have ended: for a day or more, as the controller has its own time zone."""
    now = datetime.now()
    for i, reservation in enumerate(view.spec.reservations):
        start = _start(reservation)
        if start is None or set(REPEATING) & set(reservation.flags):
            continue
        end = start + _length(reservation)
        if end + _A_DAY < now:
            message = f"reservation {reservation.name} ended on {end:%Y-%m-%d %H:%M}"
            yield Problem(_at(i, "start"), message, "remove it, or write a later start")


def nodes_both(view: View) -> Iterator[Problem]:
    """Groups and nodes."""
    for i, reservation in enumerate(view.spec.reservations):
        if reservation.groups and reservation.nodes is not None:
            yield Problem(_at(i, "nodes"), "nodes and groups together", "write one of them")


def group_unknown(view: View) -> Iterator[Problem]:
    """Groups that do not exist, or whose nodes take no jobs."""
    names = [group.group.name for group in view.groups]
    known, used = frozenset(names), _in_partitions(view)
    for i, reservation in enumerate(view.spec.reservations):
        for j, name in enumerate(reservation.groups):
            if name not in known:
                yield undeclared(_at(i, "groups", j), "group", name, names)
            elif name not in used:
                message = f"group {name} is in no partition: Slurm does not know its nodes"
                yield Problem(_at(i, "groups", j), message, f"remove {name}")


def _in_partitions(view: View) -> frozenset[str]:
    return frozenset(name for part in partitions_of(view.spec) for name in part.groups)


def node_unknown(view: View) -> Iterator[Problem]:
    """Nodes that do not exist or take no jobs, or names that cannot be read."""
    used = _in_partitions(view)
    for i, reservation in enumerate(view.spec.reservations):
        if reservation.nodes is None:
            continue
        try:
            names = expand(reservation.nodes, strict=True)
        except CorralError as error:
            yield Problem(_at(i, "nodes"), error.message, error.hint)
            continue
        strange = [name for name in names if name not in view.names] if view.complete else []
        if strange:
            message = f"no node is called {some(strange)}"
            yield Problem(_at(i, "nodes"), message, f"nodes: {some(list(view.names))}")
            continue
        idle = [name for name in names if view.complete and view.names[name].group.name not in used]
        if idle:
            message = f"{some(idle)} is in no partition: Slurm does not know it"
            yield Problem(_at(i, "nodes"), message, "leave it out")


def user_unknown(view: View) -> Iterator[Problem]:
    """Users that the file does not declare."""
    names = [*(user.name for user in users_of(view.spec)), "root"]
    known = frozenset(names)
    for i, reservation in enumerate(view.spec.reservations):
        for j, name in enumerate(reservation.users):
            if name not in known:
                yield undeclared(_at(i, "users", j), "user", name, names)


def account_unknown(view: View) -> Iterator[Problem]:
    """Accounts that are not declared, or without slurmdbd."""
    names = [*(account.name for account in view.spec.accounts), OWN_ACCOUNT]
    known = frozenset(names)
    for i, reservation in enumerate(view.spec.reservations):
        if reservation.accounts and not view.spec.slurm.accounting:
            message = "accounts need slurmdbd, and accounting is off"
            yield Problem(_at(i, "accounts"), message, "write slurm: {accounting: true}, or users")
            continue
        for j, name in enumerate(reservation.accounts):
            if name not in known:
                yield undeclared(_at(i, "accounts", j), "account", name, names)


def repeats(view: View) -> Iterator[Problem]:
    """Slurm takes one of them."""
    for i, reservation in enumerate(view.spec.reservations):
        flags = [flag for flag in REPEATING if flag in reservation.flags]
        if len(flags) > 1:
            message = f"{' and '.join(flags)} together: Slurm repeats a reservation in one rhythm"
            yield Problem(_at(i, "flags"), message, f"write {flags[0]} alone")


def overlap(view: View) -> Iterator[Problem]:
    """Two reservations of one node at one time, neither of which may overlap."""
    every = list(view.names)
    groups = {group.group.name: group.names for group in view.groups}
    spans: list[tuple[datetime, int, Reservation]] = []
    for i, reservation in enumerate(view.spec.reservations):
        start = _start(reservation)
        if start and not {"maint", "overlap", *REPEATING} & set(reservation.flags):
            spans.append((start, i, reservation))
    if not view.complete or sum(_size(each, len(every)) for *_, each in spans) > _COMPARED_AT_MOST:
        return
    taken: dict[str, tuple[datetime, str]] = {}
    for start, i, reservation in sorted(spans, key=lambda span: span[:2]):
        end = start + _length(reservation)
        names = _names(reservation, groups) or every
        for name in names:
            before = taken.get(name)
            if before and before[0] > start and before[1] != reservation.name:
                message = f"{reservation.name} and {before[1]} hold {name} at the same time"
                hint = "choose other times or nodes, or write flags: [overlap]"
                yield Problem(_at(i, "start"), message, hint)
                break
        taken |= {name: (end, reservation.name) for name in names}


def _size(reservation: Reservation, every: int) -> int:
    try:
        return count(reservation.nodes) if reservation.nodes else every
    except CorralError:
        return 0


def _names(reservation: Reservation, groups: dict[str, tuple[str, ...]]) -> list[str]:
    if reservation.nodes:
        try:
            return expand(reservation.nodes)
        except CorralError:
            return []
    return [name for group in reservation.groups for name in groups.get(group, ())]


def unused(view: View) -> Iterator[Problem]:
    """Providers that set up Slurm themselves."""
    groups = view.where(lambda c: c.configures)
    if groups and view.spec.reservations:
        provider = groups[0].group.provider
        message = f"reservations have no effect with provider {provider}, which sets up Slurm"
        yield Problem(("reservations",), message, "remove them, and make them by scontrol")


_NODES: Final = ("reservations.nodes", "reservations.groups")
_TIMES: Final = ("reservations.start", "reservations.duration")
_E, _W = Level.ERROR, Level.WARNING
RULES: Final = (
    Rule("license-duplicate", _E, "Two licences of one name.",
         (), license_duplicate, ("licenses.name",)),
    Rule("reservation-duplicate", _E, "Two reservations of one name.",
         (), reservation_duplicate, ("reservations.name",)),
    Rule("reservation-time", _E, "A day that no calendar has, or a duration of zero.",
         _TIMES, times),
    Rule("reservation-past", _W, "A reservation that has ended. It is a warning, so that a file "
         "stays valid after its maintenance.", (*_TIMES, "reservations.flags"), past),
    Rule("reservation-nodes-both", _E, "A reservation with groups and nodes.", _NODES, nodes_both),
    Rule("reservation-group-unknown", _E, "A reservation of a group that does not exist, or that "
         "is in no partition.",
         ("reservations.groups",), group_unknown, ("groups.name", "partitions.groups")),
    Rule("reservation-node-unknown", _E, "A reservation of a node that does not exist, or that is "
         "in no partition.",
         ("reservations.nodes",), node_unknown, ("groups.nodes", "partitions.groups")),
    Rule("reservation-user-unknown", _W, "A reservation for a user whom the file does not declare: "
         "slurmctld refuses one whom the controller does not know.",
         ("reservations.users",), user_unknown, ("users.name",)),
    Rule("reservation-account-unknown", _E, "A reservation for an account that is not declared, or "
         "for one without slurmdbd.",
         ("reservations.accounts",), account_unknown, ("accounts.name", "slurm.accounting")),
    Rule("reservation-repeats", _E, "A reservation that repeats in two rhythms.",
         ("reservations.flags",), repeats),
    Rule("reservation-overlap", _E, "Two reservations of one node at one time, without maint or "
         "overlap.", (), overlap, (*_TIMES, *_NODES, "reservations.flags", "groups.nodes")),
    Rule("reservation-unused", _E, "Reservations with a provider that sets up Slurm itself.",
         ("reservations",), unused, ("groups.provider",)),
)  # fmt: skip
