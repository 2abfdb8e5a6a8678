"""Lines that report an error, whatever it is, and those that only look so. Pure."""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Final

from corral.doctor.logs.log_text import LogText
from corral.doctor.model import FatalLine, LinePatterns, Notice, Patterns
from corral.tables import Row, read_table

MOST: Final = 5
"""Fatal lines that are shown."""


class Harmless(Row):
    """A line that looks like an error and is not one.

    Attributes:
        patterns: expressions.
        why: why it is harmless.
        unless: expressions of lines that are not, although they match.
    """

    patterns: Patterns
    why: str
    unless: Patterns = ()


class FatalTable(Row):
    """``fatal_lines.yaml``: what reports an error, and what only looks so.

    Attributes:
        fatal: expressions of lines that report an error.
        harmless: lines that do not, although they match one of those.
        consequences: lines that report an error and only follow from another one.
        notable: expressions of lines that may report trouble.
        management_programs: files of programs that manage a cluster.
        program_errors: classes of Python's exceptions that are a program's own fault.
    """

    fatal: Patterns
    harmless: tuple[Harmless, ...]
    consequences: Patterns
    notable: Patterns
    management_programs: LinePatterns
    program_errors: frozenset[str]


@cache
def fatal_table() -> FatalTable:
    return read_table("corral.doctor.logs", "fatal_lines.yaml", FatalTable)


def fatal_lines(log: LogText, most: int = MOST) -> list[FatalLine]:
    return _first(fatal_table().fatal, log, most)


def notable_lines(log: LogText) -> list[FatalLine]:
    return _first(fatal_table().notable, log, MOST)


def notices(log: LogText) -> list[Notice]:
    """The first line of each kind that only looks like an error, with why it is none."""
    notices: list[Notice] = []
    for entry in fatal_table().harmless:
        lines = (line for p in entry.patterns for line in log.matches(p.expression))
        line = next((line for line in lines if harmless(line.text)), None)
        if line is not None:
            notices.append(Notice(line.number, line.shown, entry.why))
    return sorted(notices, key=lambda notice: notice.number)[:MOST]


def _first(patterns: Patterns, log: LogText, most: int) -> list[FatalLine]:
    by_number: dict[int, FatalLine] = {}
    for pattern in patterns:
        lines = (
            candidate
            for candidate in log.matches(pattern.expression)
            if not harmless(candidate.text)
        )
        for line in islice(lines, most):
            by_number[line.number] = FatalLine(line.number, line.shown)
    return [by_number[number] for number in sorted(by_number)][:most]


def consequence(line: str) -> bool:
    """True when a line only reports that something ended."""
    return any(pattern.expression.search(line) for pattern in fatal_table().consequences)


def harmless(line: str) -> bool:
    """True when a line only looks like an error."""
    small = line.lower()
    return any(
        _matches(entry.patterns, line, small) and not _matches(entry.unless, line, small)
        for entry in fatal_table().harmless
    )


def _matches(patterns: Patterns, line: str, small: str) -> bool:
    return any(
        all(needle in small for needle in pattern.expression.needles)
        and pattern.expression.search(line)
        for pattern in patterns
    )
