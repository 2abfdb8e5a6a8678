"""What a log shows elsewhere against a finding: a check whose answer disproves its message. Pure.

People run such checks before they ask; with that answer the usual cause is not the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Annotated, Final

from pydantic import AfterValidator

from corral.doctor.logs.expression import Expression
from corral.doctor.logs.log_text import LogText
from corral.doctor.model import Diagnosis, LinePatterns, Patterns, Severity
from corral.tables import Row, read_table

_MOST: Final = 8
"""Objects that are taken of one line."""
_ABOVE: Final = 20
"""Lines above one in which its prompt is looked for."""
_PROMPT: Final = re.compile(r"\[?[\w.-]{1,64}@([\w.-]{1,64})[\s:][^$#]{0,100}[$#]")


def _compiles(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if "object" not in re.compile(text).groupindex:
            raise ValueError(f"{text!r} has no group called object")
    return texts


class Contrary(Row):
    """A message about an object, and what disproves it.

    Attributes:
        claim: expressions of the message.
        object: where the message names what it is about, and its port.
        shown: expressions of lines that disprove it; OBJECT and PORT stand for what is named.
        unless: expressions of lines with which the message can be true all the same.
    """

    claim: Patterns
    object: Annotated[tuple[str, ...], AfterValidator(_compiles)]
    shown: tuple[str, ...]
    unless: LinePatterns = ()

    @cached_property
    def objects(self) -> tuple[re.Pattern[str], ...]:
        """``object``, to look for."""
        return tuple(re.compile(text) for text in self.object)


@cache
def table() -> tuple[Contrary, ...]:
    return read_table("corral.doctor.logs", "counter_evidence.yaml", tuple[Contrary, ...])


def contrary(finding: Diagnosis, log: LogText) -> str:
    """The first line that disproves evidence of a finding; "" without one.

    An entry that needs further evidence has looked at more than its message.
    """
    if finding.severity is not Severity.ERROR or finding.failure.needs:
        return ""
    host = _host(finding.line, log)
    return next(filter(None, (_against(line, host, log) for line in finding.evidence)), "")


def _against(evidence: str, host: str, log: LogText) -> str:
    for row in table():
        if not any(pattern.expression.search(evidence) for pattern in row.claim):
            continue
        if any(next(log.matches(p.expression), None) for p in row.unless):
            continue
        for expression in _expressions(row, evidence):
            for line in log.matches(expression):
                if line.shown != evidence and _host(line.number, log) == host:
                    return line.shown
    return ""


def _host(number: int, log: LogText) -> str:
    """The machine whose prompt is above a line; "" where there is none."""
    above = (log.line(n) for n in range(number, max(0, number - _ABOVE), -1))
    return next((match[1] for match in map(_PROMPT.match, above) if match), "")


def _expressions(row: Contrary, evidence: str) -> Iterator[Expression]:
    """What would disprove the message, with its objects filled in."""
    matches = (match for pattern in row.objects for match in pattern.finditer(evidence))
    named = dict.fromkeys((m["object"], m.groupdict().get("port") or "") for m in matches)
    for name, port in list(named)[:_MOST]:
        # /var/run is a link to /run.
        path = name.removeprefix("/var") if name.startswith("/var/run/") else name
        for text in row.shown:
            filled = text.replace("OBJECT", re.escape(path)).replace("PORT", port)
            expression = Expression(filled)
            if expression.needles:
                yield expression
