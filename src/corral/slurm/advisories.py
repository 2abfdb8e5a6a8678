"""Which known security faults an upstream version has. Data, not code: ``data/advisories.yaml``.

Distributions fix old versions without changing the number, so a hit means "affected upstream
version, check your distribution's advisory", never "vulnerable".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, Literal

from pydantic import Field

from corral.errors import Code, CorralError
from corral.tables import Row, parse_table, read_table

_NUMBERS: Final = re.compile(r"(?:\d+:)?(\d+(?:\.\d+)*)")
_SHOWN: Final = 3
Version = tuple[int, ...]


class Advisory(Row):
    """One fault, or a set published and fixed together.

    Attributes:
        id: its first CVE number.
        aliases: the other numbers of the set.
        component: slurm, munge, pmix, openssh, nvidia-container-toolkit.
        title: what an attacker gains.
        introduced: first version that has it, "" for all.
        fixed: first fixed versions, one for each maintained branch.
        branch: how many numbers name a branch (2: 24.11); 0 where there is one branch only.
        action: what to do.
        source: where this is written.
    """

    id: str = Field(pattern=r"^CVE-\d{4}-\d{4,}$")
    aliases: tuple[str, ...] = ()
    component: str
    title: str
    introduced: str = Field(pattern=r"^(\d+(\.\d+)*)?$")
    fixed: tuple[str, ...] = Field(min_length=1)
    branch: int = Field(ge=0, le=3)
    action: str
    source: str

    def affects(self, version: str) -> bool:
        """Whether this upstream version has the fault.

        Raises:
            CorralError: no number in the version.
        """
        here = numbers(version)
        if self.introduced and here < numbers(self.introduced):
            return False
        fixes = [numbers(fix) for fix in self.fixed]
        same = [fix for fix in fixes if fix[: self.branch] == here[: self.branch]]
        return here < (same[0] if same else max(fixes))

    def message(self, version: str) -> str:
        """One line for lint, plan and doctor."""
        more = f" and {len(self.aliases)} more" if self.aliases else ""
        fixed = ", ".join(self.fixed[-_SHOWN:])
        return (
            f"{self.id}{more}: {self.component} {version} is an affected upstream version "
            f"(fixed in {fixed}): {self.title}; check your distribution's advisory, else "
            f"{self.action}"
        )


class AdvisoryTable(Row):
    """All of them, and of which day."""

    format: Literal[1]
    updated: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    advisories: tuple[Advisory, ...]


def numbers(version: str) -> Version:
    """The upstream numbers of a version: ``0.5.15-4ubuntu0.1`` gives 0, 5, 15; ``9.6p1`` 9, 6.

    Raises:
        CorralError: it does not begin with a number.
    """
    match = _NUMBERS.match(version.strip())
    if not match:
        raise CorralError(Code.PARSE_FAILED, f"{version[:60]!r} is not a version")
    return tuple(int(part) for part in match[1].split("."))


def load(text: str) -> tuple[Advisory, ...]:
    """Read a table, such as a newer one than this release carries.

    Raises:
        CorralError: PARSE_FAILED, with line and column of every finding.
    """
    return parse_table(text, "advisories.yaml", AdvisoryTable).advisories


@cache
def shipped() -> tuple[Advisory, ...]:
    """The table of this release."""
    return read_table("corral.slurm", "data/advisories.yaml", AdvisoryTable).advisories


def advisories(
    component: str, version: str, table: Sequence[Advisory] | None = None
) -> list[Advisory]:
    """Faults that this upstream version of a component has, newest first.

    Args:
        component: slurm, munge, pmix, openssh or nvidia-container-toolkit; others have none.
        version: upstream or package version.
        table: a newer table than the shipped one.

    Raises:
        CorralError: the version holds no number.
    """
    known = shipped() if table is None else table
    return [
        advisory
        for advisory in known
        if advisory.component == component and advisory.affects(version)
    ]
