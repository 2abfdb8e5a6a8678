"""Which of an entry's causes a log shows: its message's own parts and other lines decide. Pure.

An entry lists what brings its message about. Often the line itself, or another one, shows which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, Field

from corral.doctor.catalog import catalog
from corral.doctor.logs.log_text import LogText, has
from corral.doctor.logs.message_reader import LONGEST_READ
from corral.doctor.model import Diagnosis, Failure, LinePatterns, Patterns
from corral.tables import Row, read_table


def _known(name: str) -> str:
    if name not in catalog():
        raise ValueError(f"{name} is not an entry of the catalogue")
    return name


class NarrowerCause(Row):
    """One of the causes of an entry, and what shows that it is this one.

    Attributes:
        failure: the entry.
        line: expressions of which one must be in the finding's evidence; empty: none.
        log: expressions of which one must be anywhere in the log; empty: none. A log has lines of
            many programs: such an expression has a program's option, variable or message.
        unless: expressions that must not be anywhere in the log.
        title: what is wrong; "" for the entry's.
        cause: why.
        fix: what to do.
        examples: logs of which the entry's finding has this cause.
    """

    failure: Annotated[str, AfterValidator(_known)]
    line: LinePatterns = ()
    log: Patterns = ()
    unless: Patterns = ()
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

    A message of several causes is sure once its own lines show one: another line may be about
    something else.
    """
    for row in _by_failure().get(finding.failure.id, ()):
        if _shown(row, finding, log):
            general = finding.general and not _any((*row.line, *row.log), _evidence(finding, log))
            return replace(finding, failure=row.of(finding.failure), general=general)
    return finding


def _shown(row: NarrowerCause, finding: Diagnosis, log: LogText) -> bool:
    if row.line and not _any(row.line, _evidence(finding, log)):
        return False
    if _anywhere(row.unless, log):
        return False
    return not row.log or _anywhere(row.log, log)


def _evidence(finding: Diagnosis, log: LogText) -> tuple[str, ...]:
    """The finding's lines: the first one in full, as of a long line only a part is shown."""
    return (*finding.evidence, log.line(finding.line)[:LONGEST_READ])


def _any(patterns: LinePatterns, lines: Iterable[str]) -> bool:
    return any(has(pattern.expression, line) for line in lines for pattern in patterns)


def _anywhere(patterns: Patterns, log: LogText) -> bool:
    return any(next(log.matches(pattern.expression), None) for pattern in patterns)
