"""The words of the catalogue: a failure, its symptoms, and a finding of one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Final


class Layer(IntEnum):
    """What stands on what: of two findings the one of the lower layer is the cause."""

    MACHINE = 0  # it does not answer, its disk is full, its clock is off
    NETWORK = 1  # names, addresses, ports, MTU
    IDENTITY = 2  # keys, key daemons, numeric ids
    SOFTWARE = 3  # packages, versions, drivers, plugins
    CONFIG = 4  # what files say
    SERVICE = 5  # daemons and the database
    NODE = 6  # what Slurm says of a node
    JOB = 7  # what a job met


class Source(StrEnum):
    """Where a text comes from."""

    SLURMCTLD = "slurmctld"
    SLURMD = "slurmd"
    SLURMDBD = "slurmdbd"
    MUNGE = "munge"
    REASON = "reason"  # of a node, as scontrol shows it
    JOB = "job"  # what a job printed, NCCL's log among it
    KERNEL = "kernel"
    DRIVER = "driver"  # nvidia-smi
    PACKAGES = "packages"  # apt and dpkg
    ANY = "any"  # a pasted log: nobody says what it is


class Mend(StrEnum):
    """What Corral can do about it by itself, safely."""

    NONE = "none"
    APPLY = "apply"  # the plan of the cluster file puts it right
    RESUME = "resume"  # the cause is gone, the node may be resumed


@dataclass(frozen=True)
class Failure:
    """One way in which a cluster breaks.

    Attributes:
        id: stable, ``F01``.
        name: stable, ``munge-key-mismatch``.
        title: what is wrong, as a sentence without a full stop.
        cause: why it happens.
        fix: what to do.
        source: who says so.
        layer: what it stands on.
        symptoms: regular expressions of its messages; a space stands for any white space, case
            does not count.
        needs: expressions of which one must be in the same text as well; empty: none.
        excludes: expressions none of which may be in the same text.
        where: the sources whose text can show it; empty: any.
        mend: what Corral can do.
        hardware: it cannot be made to happen without the hardware.
    """

    id: str
    name: str
    title: str
    cause: str
    fix: str
    source: str
    layer: Layer
    symptoms: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    where: tuple[Source, ...] = ()
    mend: Mend = Mend.NONE
    hardware: bool = False

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """``symptoms``, compiled."""
        return tuple(map(compiled, self.symptoms))

    @cached_property
    def held(self) -> tuple[str, ...]:
        """What each of ``patterns`` cannot match without, "" for nothing that is sure."""
        return tuple(map(held, self.symptoms))

    @cached_property
    def needed(self) -> tuple[re.Pattern[str], ...]:
        """``needs``, compiled."""
        return tuple(map(compiled, self.needs))

    @cached_property
    def excluded(self) -> tuple[re.Pattern[str], ...]:
        """``excludes``, compiled."""
        return tuple(map(compiled, self.excludes))

    def shown_by(self, source: Source) -> bool:
        """True when a text of that source can show it."""
        return not self.where or source in self.where or source is Source.ANY


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One failure found.

    Attributes:
        failure: what it is.
        nodes: where; empty when it is not known or the whole cluster's.
        evidence: lines that show it, the plainest first.
        detail: the case at hand in words: which file, which value; "" when the title says all.
    """

    failure: Failure
    nodes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    detail: str = ""

    def as_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return {
            "id": self.failure.id,
            "name": self.failure.name,
            "title": self.failure.title,
            "nodes": list(self.nodes),
            "detail": self.detail,
            "evidence": list(self.evidence),
            "cause": self.failure.cause,
            "fix": self.failure.fix,
            "source": self.failure.source,
            "mend": self.failure.mend.value,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What the doctor found, first causes first."""

    findings: tuple[Diagnosis, ...] = field(default_factory=tuple)

    @property
    def healthy(self) -> bool:
        """True when nothing is wrong."""
        return not self.findings

    @property
    def mendable(self) -> tuple[Diagnosis, ...]:
        """Findings that Corral can put right."""
        return tuple(f for f in self.findings if f.failure.mend is not Mend.NONE)


_CLASSES: Final = frozenset("AbBdDsSwWZ")
"""Letters that a backslash makes something else than themselves."""


def held(pattern: str) -> str:
    """The longest text that whatever matches must hold, in small letters; "" when there is none.

    Looking for it takes a hundredth of the time: a log of 100 MB has a million lines, and most
    expressions match none of them.
    """
    runs, run, depth, at = [""], "", 0, 0
    while at < len(pattern):
        char, following = pattern[at], pattern[at + 1 : at + 2]
        at += 1
        literal = ""
        if char == "\\":
            literal = "" if following in _CLASSES or following.isdigit() else following
            at += 1
        elif char == "[":
            # A bracket that comes first is one of its characters.
            at = pattern.index("]", at + 1 + (following == "^")) + 1
        elif char == "{":
            at = pattern.index("}", at) + 1
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and not depth:
            return ""
        elif char not in " .^$*+?|":
            literal = char
        if literal and not depth and pattern[at : at + 1] not in ("*", "?", "{"):
            run += literal
        else:
            runs.append(run)
            run = ""
    return max(*runs, run, key=len).lower()


def compiled(pattern: str) -> re.Pattern[str]:
    """An expression whose spaces stand for any white space: Slurm prints two in some sentences."""
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)
