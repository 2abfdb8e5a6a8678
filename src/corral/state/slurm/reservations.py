"""Reservations in slurmctld: what is there, what must be, and the calls of scontrol between. Pure.

Those that Corral makes are listed on the controller (``MARKS``): only those are ever removed. A
reservation's comment could mark it, but 22.05 has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corral.durations import clock
from corral.hosts.quote import Script, call, join, sh
from corral.slurm.policy import Reservation
from corral.slurm.text import readable_reservation
from corral.spec.slurm.hostlist import expand, fold
from corral.state.base import Change, Context, Seen, Standalone

MARKS: Final = "/var/lib/corral/reservations"
EVERY: Final = {"DAILY": 1, "WEEKDAY": 1, "WEEKEND": 1, "WEEKLY": 7}
"""Days after which a reservation of this flag comes again."""
FLAGS: Final = frozenset({*EVERY, "MAINT", "IGNORE_JOBS", "OVERLAP", "FLEX", "MAGNETIC"})
"""The flags that are compared; Slurm adds others itself, such as SPEC_NODES."""
_PROGRAM: Final = "state/reservations.sh"


@dataclass(frozen=True, slots=True)
class Declared:
    """A reservation as the cluster file declares it; ``slurm.policy`` has Slurm's record.

    Attributes:
        name: its name.
        start: when it begins, ``2030-01-31T08:00:00`` by the controller's clock.
        minutes: how long it lasts.
        nodes: names of its nodes.
        users: who may use it.
        accounts: whose users may use it.
        flags: scontrol's, in capitals.
    """

    name: str
    start: str
    minutes: int
    nodes: tuple[str, ...]
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def days(self) -> int:
        """After how many days it comes again, 0 for never."""
        return next((EVERY[flag] for flag in self.flags if flag in EVERY), 0)

    @property
    def place(self) -> list[object]:
        """Name, start, minutes and days as the program takes them."""
        return [self.name, self.start, self.minutes, self.days]

    def words(self, *, flags: bool) -> list[str]:
        """The other words of scontrol create and update."""
        lists = {"Users": self.users, "Accounts": self.accounts}
        lists |= {"Flags": self.flags} if flags else {}
        given = [f"{word}={','.join(names)}" for word, names in lists.items() if names]
        return [f"Nodes={fold(self.nodes)}", *given]

    def __str__(self) -> str:
        """For people."""
        who = ",".join((*self.users, *self.accounts))
        what = f" {','.join(self.flags)}" if self.flags else ""
        return (
            f"{self.name}: {self.start} for {clock(self.minutes * 60)} on {fold(self.nodes)}, "
            f"{who}{what}"
        )


@dataclass(frozen=True, slots=True)
class _Existing:
    """What the probe printed: place in time and end by declared name, names made, records.

    ``read`` is False where slurmctld did not answer: the records are unknown then.
    """

    times: Mapping[str, tuple[str, str]]
    made: tuple[str, ...]
    records: Mapping[str, Reservation]
    read: bool


def parse(text: str) -> _Existing:
    """Read what the probe printed."""
    times: dict[str, tuple[str, str]] = {}
    made: list[str] = []
    records: dict[str, Reservation] = {}
    read = False
    for line in text.splitlines():
        match line.split():
            case ["@read"]:
                read = True
            case ["@time", name, when, end]:
                times[name] = when, end
            case ["@made", name]:
                made.append(name)
            case _:
                if record := readable_reservation(line.strip()):
                    records[record.name] = record
    return _Existing(times, tuple(made), records, read)


@dataclass(frozen=True)
class SlurmReservations(Standalone):
    """The reservations of a cluster that its file declares.

    Attributes:
        cluster: Slurm's ClusterName.
        reservations: in the file's order.
    """

    cluster: str
    reservations: tuple[Declared, ...] = ()

    @property
    def id(self) -> str:
        return f"slurm-reservations:{self.cluster}"

    def probe(self) -> Script:
        """See the program: nothing where none is declared and Corral made none."""
        places = [each.place for each in self.reservations]
        return call(_PROGRAM, "reservations_probe", MARKS, *places)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make what is missing, change what differs, remove what Corral made and nobody declares.

        One that has ended is left alone: Slurm removes it itself.
        """
        existing = parse(seen.text)
        steps = [*self._gone(existing), *self._set(existing)]
        if not steps:
            return None
        declared = [each.name for each in self.reservations]
        before = dict.fromkeys([*existing.made, *declared])
        mark = call(_PROGRAM, "reservations_mark", MARKS, *before)
        only = call(_PROGRAM, "reservations_mark", MARKS, *declared)
        reached = call(_PROGRAM, "reservations_reached")
        return Change(
            self.id,
            "reservations: " + ", ".join(step.words for step in steps),
            "\n".join(step.before for step in steps if step.before),
            "\n".join(step.after for step in steps if step.after),
            join([reached, mark, *(step.script for step in steps), only], " && "),
        )

    def _gone(self, existing: _Existing) -> Iterator[_Step]:
        declared = {each.name for each in self.reservations}
        for name in existing.made:
            if name in declared:
                continue
            record = existing.records.get(name)
            if record is None and existing.read:
                # It has ended: another of that name would be somebody else's.
                yield _Step(f"forget {name}, which has ended", "", "", sh("true"))
                continue
            # Where slurmctld did not answer it may be there: its mark stays as long as it does.
            before = _shown(record) if record is not None else f"{name}: unknown"
            yield _Step(f"remove {name}", before, "", call(_PROGRAM, "reservation_gone", name))

    def _set(self, existing: _Existing) -> Iterator[_Step]:
        for desired in self.reservations:
            when, end = existing.times.get(desired.name, ("ahead", ""))
            record = existing.records.get(desired.name)
            if when == "ended":
                continue
            if record is None:
                yield _step("create" if existing.read else "set", desired, "", "new")
            elif _other(desired, record, when):
                yield _step("re-create", desired, _shown(record), "again")
            elif _changed(desired, record, when, end):
                yield _step("change", desired, _shown(record), "update")


@dataclass(frozen=True, slots=True)
class _Step:
    """One change: in words, with what is there before and after it."""

    words: str
    before: str
    after: str
    script: Script


def _step(verb: str, desired: Declared, before: str, how: str) -> _Step:
    words = desired.words(flags=how != "update")
    script = call(_PROGRAM, "reservation_set", how, *desired.place, *words)
    return _Step(f"{verb} {desired.name}", before, str(desired), script)


def _other(desired: Declared, record: Reservation, when: str) -> bool:
    """What no update changes on all releases: flags, a start, and who, from or to nobody."""
    flags = set(record.flags) & FLAGS
    nobody = bool(record.users) != bool(desired.users)
    nobody |= bool(record.accounts) != bool(desired.accounts)
    return flags != set(desired.flags) or nobody or _moved(desired, record, when)


def _moved(desired: Declared, record: Reservation, when: str) -> bool:
    """Whether it begins at another time; of one that has begun only the end counts."""
    try:
        start = datetime.fromisoformat(record.start_local)
    except ValueError:
        return True
    declared = datetime.fromisoformat(desired.start)
    if desired.days:
        weekday = desired.days != 1 and start.weekday() != declared.weekday()
        return weekday or start.time() != declared.time()
    return when == "ahead" and start != declared


def _changed(desired: Declared, record: Reservation, when: str, end: str) -> bool:
    if desired.days or when == "ahead":
        last = record.length != desired.minutes * 60
    else:
        last = record.end_local != end
    return (
        last
        or set(expand(record.nodes)) != set(desired.nodes)
        or set(record.users) != set(desired.users)
        or set(record.accounts) != set(desired.accounts)
    )


def _shown(record: Reservation) -> str:
    """For people, as ``str`` of a declared one."""
    who = ",".join((*record.users, *record.accounts))
    flags = ",".join(flag for flag in record.flags if flag in FLAGS)
    length = "unknown" if record.length is None else clock(record.length)
    text = f"{record.name}: {record.start_local} for {length} on {record.nodes}, {who} {flags}"
    return text.rstrip()
