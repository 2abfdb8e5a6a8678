"""Which of an entry's causes a log shows: its message's own parts and other lines decide. Pure.

An entry lists what brings its message about. Often the line itself, or another one, shows which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from corral.doctor.catalog import catalog
from corral.doctor.logs.log_text import LogText
from corral.doctor.logs.message_reader import LONGEST_READ
from corral.doctor.model import Diagnosis, Failure, LinePatterns, Patterns
from corral.tables import Row, read_table

_NEAR: Final = 3
"""Lines above and below the first one of evidence that count as the message's own."""


def _known(name: str) -> str:
    if name not in catalog():
        raise ValueError(f"{name} is not an entry of the catalogue")
    return name


class NarrowerCause(Row):
    """One of the causes of an entry, and what shows that it is this one.

    Attributes:
        failure: the entry.
        line: expressions of the message's own lines; empty: whatever they are.
        log: expressions of which one must be anywhere in the log; empty: none.
        title: what is wrong; "" for the entry's.
        cause: why.
        fix: what to do.
        examples: logs of which the entry's finding has this cause.
    """

    failure: Annotated[str, AfterValidator(_known)]
    line: LinePatterns = ()
    log: Patterns = ()
    title: str = ""
    cause: str
    fix: str
    examples: tuple[str, ...] = Field(min_length=1)

    def of(self, failure: Failure) -> Failure:
        """The entry with this cause."""
        title = self.title or failure.title
        return failure.model_copy(update={"title": title, "cause": self.cause, "fix": self.fix})


@cache
def causes() -> tuple[NarrowerCause, ...]:
    return read_table("corral.doctor.logs", "narrower_causes.yaml", tuple[NarrowerCause, ...])


@cache
def _by_failure() -> Mapping[str, tuple[NarrowerCause, ...]]:
    rows: defaultdict[str, list[NarrowerCause]] = defaultdict(list)
    for row in causes():
        rows[row.failure].append(row)
    return {name: tuple(of) for name, of in rows.items()}


def narrowed(finding: Diagnosis, log: LogText) -> Diagnosis:
    """A finding with the one of its entry's causes that the log shows; the same without one.

    A message of several causes is sure once one of them is shown.
    """
    for row in _by_failure().get(finding.failure.id, ()):
        if _shown(row, finding, log):
            return replace(finding, failure=row.of(finding.failure), general=False)
    return finding


def _shown(row: NarrowerCause, finding: Diagnosis, log: LogText) -> bool:
    near = range(max(1, finding.line - _NEAR), finding.line + _NEAR + 1)
    own = [*finding.evidence, *(log.line(number)[:LONGEST_READ] for number in near)]
    if row.line and not any(p.expression.search(text) for p in row.line for text in own):
        return False
    return not row.log or any(next(log.matches(p.expression), None) for p in row.log)
