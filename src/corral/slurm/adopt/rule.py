"""One rule: what it looks for, where that is known from, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from corral.slurm.adopt.source import Edit, Kind, Spot
from corral.slurm.adopt.view import Existing
from corral.slurm.version import SlurmVersion
from corral.spec.findings import Level
from corral.spec.slurm.releases import Release

E: Final = Level.ERROR
W: Final = Level.WARNING
I: Final = Level.INFO  # noqa: E741  # the three letters of the tables


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found at one place.

    Attributes:
        spot: where; a spot without an offset is the file as a whole.
        message: what is wrong, one sentence without a full stop; holds no secret.
        hint: what to write instead.
        edits: what makes it right; none where only a person can know.
        makes: a file to be made, by kind, and its text.
        level: another level than the rule's own.
        where: what it is about, such as NodeName=node[0-2].
    """

    spot: Spot
    message: str
    hint: str
    edits: tuple[Edit, ...] = ()
    makes: tuple[Kind, str] | None = None
    level: Level | None = None
    where: str = ""


Check = Callable[[Existing], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules.

    Attributes:
        id: kebab-case name.
        level: how bad it is, where the problem itself has no level.
        kind: the file it is about.
        meaning: what it finds, one sentence.
        fix: what to write instead, in a few words.
        check: the function that checks.
        failure: entry of the failure catalogue, such as F31; "" for none.
        source: where it is known from.
        since: first release it holds for; None: all of them.
        until: first release it does not hold for any more; None: still.
    """

    id: str
    level: Level
    kind: Kind
    meaning: str
    fix: str
    check: Check
    failure: str = ""
    source: str = ""
    since: Release | None = None
    until: Release | None = None

    def holds_for(self, version: SlurmVersion | None) -> bool:
        """Whether it is asked for a release; a release that nobody named asks all rules."""
        if version is None:
            return True
        if self.since is not None and version.release < self.since:
            return False
        return self.until is None or version.release < self.until
