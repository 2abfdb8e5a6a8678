"""The words of the catalogue: a failure, its messages, and a finding of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cache, cached_property
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from corral.doctor.logs.expression import Expression, alternatives
from corral.tables import read_table


class Layer(IntEnum):
    """What depends on what: of two findings the one of the lower layer is the cause."""

    MACHINE = 0  # it does not answer, its disk is full, its clock is off
    NETWORK = 1  # names, addresses, ports, MTU
    IDENTITY = 2  # keys, key daemons, numeric ids
    SOFTWARE = 3  # packages, versions, drivers, plugins
    CONFIG = 4  # what files declare
    SERVICE = 5  # daemons and the database
    NODE = 6  # what Slurm reports about a node
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
    ANY = "any"  # a pasted log: of unknown origin


LIVE: Final = frozenset(Source) - {Source.ANY, Source.JOB, Source.PACKAGES}
"""Texts that Corral reads on a cluster itself, into which users must not be able to write."""


@cache
def system_errors() -> tuple[str, ...]:
    """The kernel's reasons (strerror), which messages end with; the longer of two first."""
    return read_table("corral.doctor", "system_errors.yaml", tuple[str, ...])


@cache
def _system_error_in() -> re.Pattern[str]:
    return re.compile("|".join(system_errors()), re.IGNORECASE)


class FixBy(StrEnum):
    """What Corral can do about it automatically, safely."""

    NONE = "none"
    APPLY = "apply"  # the plan of the cluster file corrects it
    RESUME = "resume"  # the cause is gone, the node may be resumed


class Severity(StrEnum):
    """How much a finding explains."""

    ERROR = "error"  # it stops something
    SYMPTOM = "symptom"  # always the consequence of something else
    WARNING = "warning"  # nothing ends by it


def _patterns(value: Any) -> Any:
    """Entries written as a text alone; one for each alternative that is in no bracket."""
    if not isinstance(value, list):
        return value
    given = (
        {"text": entry} if isinstance(entry, str) else entry for entry in cast("list[Any]", value)
    )
    return tuple({**entry, "text": text} for entry in given for text in alternatives(entry["text"]))


class Pattern(BaseModel):
    """One message.

    Attributes:
        text: an expression (``corral.doctor.logs.expression``).
        live: False where a user can make the daemon print it: then it counts in a pasted log only,
            never on a live cluster.
        general: True for a message that many causes bring about: a failure that is shown by such
            messages alone comes after every other, and hides none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    live: bool = True
    general: bool = False

    @cached_property
    def expression(self) -> Expression:
        """``text``, to look for."""
        return Expression(self.text)


def _with_needles(patterns: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    for pattern in patterns:
        if not pattern.expression.needles:
            raise ValueError(f"{pattern.text!r} has no text that each match has")
    return patterns


LinePatterns = Annotated[tuple[Pattern, ...], BeforeValidator(_patterns)]
"""Expressions that are tried on single lines."""
Patterns = Annotated[LinePatterns, AfterValidator(_with_needles)]
"""Expressions that are looked for in a complete log."""


def _system_error(text: str) -> str:
    if text not in system_errors():
        raise ValueError(f"{text!r} is not an error of the kernel")
    return text


class Failure(BaseModel):
    """One way in which a cluster, or a job on it, breaks: an entry of ``catalog/``.

    Attributes:
        id: stable, ``F01``.
        name: stable, ``munge-key-mismatch``.
        title: what is wrong, as a sentence without a full stop.
        cause: why it happens.
        fix: what to do.
        source: who reports it.
        layer: what it depends on.
        severity: how much it explains.
        patterns: its messages.
        needs: expressions of which one must be in the same text as well; empty: none.
        unless: expressions none of which may be in the same text.
        unless_line: expressions none of which may be in the same line.
        reasons: the kernel's errors that its cause explains (``system_errors``): a line that states
            others only does not show it; empty: whatever a line states.
        where: the sources whose text can show it; empty: any but the kernel's.
        hides: failures that it brings about: they are not shown next to it on the same node.
        fix_by: what Corral can do automatically.
        stated: its messages are a kind, and the message itself is the cause; read only where no
            other entry accounts for a log.
        hardware: it cannot be made to happen without the hardware.
        examples: messages as programs print them; each is found by this entry.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^F\d{2,4}$")
    name: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    cause: str
    fix: str
    source: str
    layer: Annotated[Layer, BeforeValidator(lambda v: Layer[str(v).upper()])]
    severity: Severity = Severity.ERROR
    patterns: Patterns = ()
    needs: Patterns = ()
    unless: Patterns = ()
    unless_line: LinePatterns = ()
    reasons: tuple[Annotated[str, AfterValidator(_system_error)], ...] = ()
    where: tuple[Source, ...] = ()
    hides: tuple[str, ...] = ()
    fix_by: FixBy = FixBy.NONE
    stated: bool = False
    hardware: bool = False
    examples: tuple[str, ...] = ()

    def shown_by(self, source: Source) -> bool:
        """True when a text of that source can show it.

        The kernel's must be named: its lines hold names of users' processes.
        """
        if source in self.where or source is Source.ANY:
            return True
        return not self.where and source is not Source.KERNEL

    def excludes(self, line: str) -> bool:
        """True when a line that one of its patterns matches is about something else."""
        if any(pattern.expression.search(line) for pattern in self.unless_line):
            return True
        if not self.reasons:
            return False
        stated = {reason.lower() for reason in _system_error_in().findall(line)}
        return bool(stated) and not stated & set(self.reasons)

    @property
    def every_pattern(self) -> Iterator[Pattern]:
        """All expressions of the entry."""
        yield from (*self.patterns, *self.needs, *self.unless, *self.unless_line)


def evidence_lines(text: str) -> tuple[str, ...]:
    """A text as evidence shows it: its lines that are not blank."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One failure found.

    Attributes:
        failure: what it is.
        nodes: where; empty when it is not known or the entire cluster's.
        evidence: lines that show it, the plainest first.
        detail: the case at hand in words: which file, which value; "" when the title suffices.
        line: number of the first of these lines in a pasted log, 0 when it is of no log.
        general: only messages show it that many causes bring about.
        contrary: a line of the same log that disproves these messages' usual cause; "" for none.
    """

    failure: Failure
    nodes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    detail: str = ""
    line: int = 0
    general: bool = False
    contrary: str = ""

    @property
    def sure(self) -> bool:
        """False where its messages have several causes, or the log disproves the usual one."""
        return not (self.general or self.contrary)

    @property
    def severity(self) -> Severity:
        """How much it explains: what is not sure is not a cause."""
        cause = self.failure.severity is Severity.ERROR
        return Severity.SYMPTOM if cause and not self.sure else self.failure.severity

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.failure.id,
            "name": self.failure.name,
            "title": self.failure.title,
            "nodes": list(self.nodes),
            "detail": self.detail,
            "line": self.line,
            "evidence": list(self.evidence),
            "contrary": self.contrary,
            "cause": self.failure.cause,
            "fix": self.failure.fix,
            "source": self.failure.source,
            "severity": self.severity.value,
            "fix_by": self.failure.fix_by.value,
        }


@dataclass(frozen=True, slots=True)
class FatalLine:
    """A line of a log that reports an error which no failure of the catalogue explains."""

    number: int
    text: str

    def as_dict(self) -> dict[str, object]:
        return {"line": self.number, "text": self.text}


@dataclass(frozen=True, slots=True)
class Notice:
    """A line of a log that looks like an error and is none, and why."""

    number: int
    text: str
    why: str

    def as_dict(self) -> dict[str, object]:
        return {"line": self.number, "text": self.text, "why": self.why}


@dataclass(frozen=True, slots=True)
class OutOfService:
    """A node that takes no jobs although nothing known is wrong with it: somebody drained it.

    Attributes:
        node: its name.
        state: Slurm's.
        reason: why, as it was given; "" for none.
        by: who gave it, "" where unknown.
    """

    node: str
    state: str
    reason: str = ""
    by: str = ""

    @property
    def text(self) -> str:
        """In one line."""
        who = f" ({self.by})" if self.by else ""
        return f"{self.node} is {self.state}: {self.reason or 'no reason given'}{who}"

    def as_dict(self) -> dict[str, object]:
        return {"node": self.node, "state": self.state, "reason": self.reason, "by": self.by}


@dataclass(frozen=True, slots=True)
class Report:
    """What the doctor found, first causes first.

    Attributes:
        findings: known failures.
        out_of_service: nodes without a finding that take no jobs.
        unknown: the first fatal lines of a log, where no known failure accounts for them.
        notable: where neither is found: lines that may report trouble.
        notices: where neither is found: lines that look like errors and are known to be none.
    """

    findings: tuple[Diagnosis, ...] = field(default_factory=tuple)
    unknown: tuple[FatalLine, ...] = ()
    notable: tuple[FatalLine, ...] = ()
    notices: tuple[Notice, ...] = ()
    out_of_service: tuple[OutOfService, ...] = ()

    @property
    def healthy(self) -> bool:
        """True when nothing is known to be wrong; nodes may be out of service all the same."""
        return not self.findings and not self.unknown

    def as_dict(self) -> dict[str, object]:
        return {
            "healthy": self.healthy,
            "findings": [f.as_dict() for f in self.findings],
            "unknown": [line.as_dict() for line in self.unknown],
            "notable": [line.as_dict() for line in self.notable],
            "notices": [notice.as_dict() for notice in self.notices],
            "out_of_service": [node.as_dict() for node in self.out_of_service],
        }
