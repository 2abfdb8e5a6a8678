"""Which failures a text shows: patterns over lines, causes before their consequences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from corral.doctor.catalog import catalog
from corral.doctor.fatal_lines import fatal_lines, notable_lines
from corral.doctor.log_text import Line, LogText
from corral.doctor.model import LIVE, Diagnosis, Failure, Pattern, Report, Severity, Source
from corral.doctor.process_names import of_kernel
from corral.doctor.program import PROGRAM_ERROR, Traceback, tracebacks
from corral.doctor.stated import stated

MOST_LINES: Final = 3
"""Lines of evidence that are kept of each failure."""
_ORDER: Final = {Severity.ERROR: 0, Severity.SYMPTOM: 1, Severity.WARNING: 2}
_WARNED: Final = 50
"""Lines of a warning that are left out when a log is read for what it states itself."""
_AFTER: Final = 8
"""Lines after an exception's own in which its message goes on."""


def explain(text: str) -> Report:
    """What a pasted log shows; where no known failure accounts for it, its first fatal lines."""
    log = LogText(text)
    found = list(_read(log, Source.ANY, ""))
    found += _program_errors(log, found)
    known = report(found)
    if any(one.severity is Severity.ERROR for one in known.findings):
        return known
    findings = _with_stated(log, known.findings)
    shown = {one.line for one in findings}
    lines = tuple(line for line in fatal_lines(log) if line.number not in shown)
    notable = () if findings or lines else tuple(notable_lines(log))
    return Report(findings, lines, notable)


def _with_stated(log: LogText, known: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    """What the log states itself, among findings that name no cause.

    It comes before consequences and warnings. A line after a general message or a consequence
    follows from that; the consequence's own line may give the reason.
    """
    one = stated(log, _warned(log, known))
    if one is None or any(_before(other, one) for other in known):
        return tuple(known)
    return (one, *known)


def _warned(log: LogText, known: Sequence[Diagnosis]) -> frozenset[int]:
    """The lines of warnings: what such a line says is known, and nothing ended by it."""
    warnings = (one for one in known if one.severity is Severity.WARNING and not one.general)
    return frozenset(
        line.number
        for one in warnings
        for line in _evidence(one.failure, log, Source.ANY, most=_WARNED)
    )


def _before(known: Diagnosis, one: Diagnosis) -> bool:
    """True when what a log states follows from something known."""
    if known.severity is not Severity.SYMPTOM:
        return False
    weak = known.general or one.failure.severity is Severity.SYMPTOM
    return known.line < one.line or (weak and known.line == one.line)


def read(text: str, source: Source = Source.ANY, node: str = "") -> tuple[Diagnosis, ...]:
    """All failures whose messages are in a text, in the order of the catalogue.

    What Corral reads on a cluster itself must begin with a message, after time and program: users
    choose names and paths that daemons print further on in a line.

    Args:
        text: a log, a node's reason, a program's output.
        source: where it comes from; ANY for a pasted one.
        node: whose it is, "" when nobody knows.
    """
    return tuple(_read(LogText(text), source, node))


def _read(log: LogText, source: Source, node: str) -> Iterable[Diagnosis]:
    for failure in catalog().values():
        if failure.stated or not failure.shown_by(source) or not failure.patterns:
            continue
        plain = _evidence(failure, log, source)
        lines = plain or _evidence(failure, log, source, general=True)
        if lines and _fits(failure, log):
            evidence = tuple(dict.fromkeys(line.shown for line in lines))
            nodes = (node,) if node else ()
            first = min(line.number for line in lines)
            yield Diagnosis(failure, nodes, evidence, line=first, general=not plain)


def report(findings: Iterable[Diagnosis]) -> Report:
    """Findings of one kind together, consequences left out, first causes first."""
    merged = _specific(_merged(findings))
    kept = [one for one in merged if not _explained(one, merged)]
    return Report(tuple(sorted(kept, key=_place)))


def _place(one: Diagnosis) -> tuple[int, int, int, int, tuple[str, ...]]:
    failure = one.failure
    return _ORDER[one.severity], failure.layer, one.line, int(failure.id[1:]), one.nodes


def _program_errors(log: LogText, known: Sequence[Diagnosis]) -> Iterable[Diagnosis]:
    """The first exception that is the program's own, where no known failure raised it."""
    taken = [
        number for one in known if one.failure.id != PROGRAM_ERROR for number in _numbers(one, log)
    ]
    for one in tracebacks(log):
        if one.own and not any(one.line <= number <= one.line + _AFTER for number in taken):
            yield _of_program(one)
            return


def _numbers(one: Diagnosis, log: LogText) -> Iterable[int]:
    if one.failure.severity is Severity.ERROR:
        lines = _evidence(one.failure, log, Source.ANY, general=one.general, most=50)
        yield from (line.number for line in lines)


def _of_program(one: Traceback) -> Diagnosis:
    detail = f"{one.exception} at {one.place}" if one.place else one.exception
    return Diagnosis(catalog()[PROGRAM_ERROR], (), (one.shown,), detail, one.line)


def _fits(failure: Failure, log: LogText) -> bool:
    if failure.needs and not any(_anywhere(p, log) for p in failure.needs):
        return False
    return not any(_anywhere(p, log) for p in failure.unless)


def _anywhere(pattern: Pattern, log: LogText) -> bool:
    return next(log.matches(pattern.expression), None) is not None


def _evidence(
    failure: Failure,
    log: LogText,
    source: Source,
    *,
    general: bool = False,
    most: int = MOST_LINES,
) -> list[Line]:
    found: dict[str, Line] = {}
    live = source in LIVE
    for pattern in failure.patterns:
        if pattern.general is not general:
            continue
        # A gap in an expression could be filled by a name that a user chose.
        if live and not (pattern.live and pattern.expression.unbroken):
            continue
        taken = 0
        for line in log.matches(pattern.expression, head=live):
            if any(p.expression.search(line.text) for p in failure.unless_line):
                continue
            if source is Source.KERNEL and not of_kernel(pattern.expression, line.text):
                continue
            found.setdefault(line.shown, line)
            taken += 1
            if taken == most:
                break
    return sorted(found.values(), key=lambda line: line.number)[:most]


def _merged(findings: Iterable[Diagnosis]) -> list[Diagnosis]:
    """One per failure and case, with all its nodes."""
    by_case: dict[tuple[str, str], Diagnosis] = {}
    for one in findings:
        key = (one.failure.id, one.detail)
        before = by_case.get(key)
        by_case[key] = one if before is None else _both(before, one)
    return list(by_case.values())


def _specific(findings: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Without those that name no case where another of the same failure names one."""
    detailed = [f for f in findings if f.detail]
    return [
        one
        for one in findings
        if one.detail
        or not any(
            other.failure.id == one.failure.id and set(one.nodes) <= set(other.nodes)
            for other in detailed
        )
    ]


def _both(before: Diagnosis, one: Diagnosis) -> Diagnosis:
    nodes = tuple(dict.fromkeys((*before.nodes, *one.nodes)))
    evidence = tuple(dict.fromkeys((*before.evidence, *one.evidence)))
    kept = evidence[: MOST_LINES * 2]
    general = before.general and one.general
    return Diagnosis(one.failure, nodes, kept, one.detail, before.line, general)


def _explained(one: Diagnosis, others: Sequence[Diagnosis]) -> bool:
    """True when a deeper failure accounts for it on all its nodes."""
    hiders = [other for other in others if _hides(other, one)]
    if not hiders:
        return False
    if not one.nodes or any(not h.nodes for h in hiders):
        return True
    return set(one.nodes) <= {node for h in hiders for node in h.nodes}


def _hides(cause: Diagnosis, other: Diagnosis) -> bool:
    if other.failure.id in cause.failure.hides:
        return not cause.general or other.severity is not Severity.ERROR
    return cause.severity is Severity.ERROR and other.severity is Severity.SYMPTOM
