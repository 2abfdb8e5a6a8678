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
    lines = [(one, log.line(one.number)[:_READ]) for one in fatal_lines(log, _LINES)]
    told = [
        (one, text)
        for one, text in lines
        if one.number not in accounted
        and not (_CODE.match(text) or _QUIET.search(text))
        and not (consequence(text) or _handled(log, one.number))
    ]
    for general in (False, True):
        for fatal, text in told:
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
        if any(_matches(one.expression, text) for one in failure.unless_line):
            continue
        patterns = (one for one in failure.patterns if one.general is general)
        if any(_matches(one.expression, text) for one in patterns):
            return failure
    return None


@cache
def _kinds() -> tuple[Failure, ...]:
    return tuple(one for one in catalog().values() if one.stated)


def _matches(expression: Expression, text: str) -> bool:
    if expression.leading:
        return any(expression.match(text, at) for at in starts(text))
    return expression.search(text)


def _handled(log: LogText, number: int) -> bool:
    """True when the program met another exception while it handled this one."""
    after = range(number + 1, number + 1 + _HANDLED_AFTER)
    return any(_HANDLED in log.line(one).lower() for one in after)
