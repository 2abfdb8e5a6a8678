"""The cause that a log states itself: its first error line whose own words name one. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from typing import Final

from corral.doctor.catalog import catalog
from corral.doctor.expression import Expression
from corral.doctor.fatal_lines import consequence, fatal_lines
from corral.doctor.log_text import LogText, starts
from corral.doctor.model import Diagnosis, Failure

_LINES: Final = 200
"""Error lines that are read."""
_LONGEST: Final = 240
_READ: Final = 2000
"""Characters of a line that are read: no message is longer."""
_CODE: Final = re.compile(
    r"\s{0,40}(?:raise |return |assert |except |with |if |print\(|self\."
    r"|File \"|\^|~|#(?!#)|\$ |>>> )"
)
_QUIET: Final = re.compile(r"\bdebug\d?\b|level=(?:debug|info)\b", re.IGNORECASE)
_HANDLED: Final = "during handling of the above exception"
_HANDLED_AFTER: Final = 4
_LEVEL: Final = re.compile(r"(?:error|fatal|critical|failed)\b[: ]{1,8}", re.IGNORECASE)
_TIME: Final = re.compile(r"[\s\[\d<]|[A-Z][a-z]{2} |[\w.-]{1,64}\[\d{1,9}\]: ")


def stated(log: LogText, accounted: Container[int] = ()) -> Diagnosis | None:
    """The first error line that names its cause, as a finding with its message; None without one.

    A line that gives a reason comes before one with only what could not be done (``general``).

    Args:
        log: where to look.
        accounted: numbers of lines that a known failure explains.
    """
    lines = [(line, log.line(line.number)[:_READ]) for line in fatal_lines(log, _LINES)]
    candidates = [
        (line, text)
        for line, text in lines
        if line.number not in accounted
        and not (_CODE.match(text) or _QUIET.search(text))
        and not (consequence(text) or _handled(log, line.number))
    ]
    for general in (False, True):
        for fatal, text in candidates:
            failure = _innermost(text, general=general)
            if failure is not None:
                detail = message(fatal.text)
                return Diagnosis(failure, (), (fatal.text,), detail, fatal.number)
    return None


def message(line: str) -> str:
    """A line without its time, host and level, and without the programs that precede these."""
    at = starts(line)
    chosen = 0
    for start, end in zip(at, [*at[1:], len(line)], strict=True):
        part = line[start:end]
        if _LEVEL.fullmatch(part) or (start == chosen and _TIME.match(part)):
            chosen = end
    return line[chosen:].strip()[:_LONGEST] or line.strip()[:_LONGEST]


def _innermost(text: str, *, general: bool) -> Failure | None:
    """The kind of the last part that gives a reason: a message adds what it was about before it."""
    for part in reversed(text.split(": ")):
        failure = _kind(part, general=general)
        if failure is not None:
            return failure
    return _kind(text, general=general)


def _kind(text: str, *, general: bool) -> Failure | None:
    for failure in _kinds():
        if any(_matches(pattern.expression, text) for pattern in failure.unless_line):
            continue
        patterns = (pattern for pattern in failure.patterns if pattern.general is general)
        if any(_matches(pattern.expression, text) for pattern in patterns):
            return failure
    return None


@cache
def _kinds() -> tuple[Failure, ...]:
    return tuple(failure for failure in catalog().values() if failure.stated)


def _matches(expression: Expression, text: str) -> bool:
    if expression.leading:
        return any(expression.match(text, at) for at in starts(text))
    return expression.search(text)


def _handled(log: LogText, number: int) -> bool:
    """True when the program met another exception while it handled this one."""
    after = range(number + 1, number + 1 + _HANDLED_AFTER)
    return any(_HANDLED in log.line(later).lower() for later in after)
