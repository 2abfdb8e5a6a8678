"""Which failures a text shows: patterns over lines, causes before their consequences. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from corral.doctor.catalog import catalog
from corral.doctor.logs.counter_evidence import contrary
from corral.doctor.logs.fatal_lines import consequence, fatal_lines, notable_lines, notices
from corral.doctor.logs.log_text import Line, LogText, of_kernel
from corral.doctor.logs.message_reader import LONGEST_READ, read_message
from corral.doctor.logs.narrower_causes import narrowed
from corral.doctor.logs.stated_cause import EXCEPTION, UNREAD, stated
from corral.doctor.logs.tracebacks import PROGRAM_ERROR, Traceback, tracebacks
from corral.doctor.model import LIVE, Diagnosis, Failure, Pattern, Report, Severity, Source

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
    diagnoses = list(_read(log, Source.ANY, ""))
    diagnoses += _program_errors(log, diagnoses)
    diagnoses = [narrowed(finding, log) for finding in diagnoses]
    judged = report(replace(finding, contrary=contrary(finding, log)) for finding in diagnoses)
    known = tuple(_precise(finding, log) for finding in judged.findings)
    if any(finding.severity is Severity.ERROR for finding in known):
        return Report(known)
    findings = _with_stated(log, known)
    shown = {finding.line for finding in findings if finding.failure.id != UNREAD}
    lines = tuple(line for line in fatal_lines(log) if line.number not in shown)
    if findings or lines:
        return Report(findings, lines)
    return Report(notable=tuple(notable_lines(log)), notices=tuple(notices(log)))


def _precise(finding: Diagnosis, log: LogText) -> Diagnosis:
    """A known failure with what its first line names of the case: which file, host or version."""
    if finding.detail or finding.severity is Severity.WARNING:
        return finding
    message = read_message(log.line(finding.line)[:LONGEST_READ])
    if message is None or message.sentence == finding.failure.title:
        return finding
    return replace(finding, detail=message.sentence)


def _with_stated(log: LogText, known: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    """What the log states itself, among findings that name no cause.

    It comes before consequences and warnings. A line after a general message or a consequence
    follows from that; the consequence's own line may give the reason.
    """
    statement = stated(log, _warned(log, known))
    if statement is None or any(_before(other, statement, log) for other in known):
        return tuple(known)
    if known and statement.failure.id == UNREAD:
        return tuple(known)
    return (narrowed(statement, log), *known)


def _warned(log: LogText, known: Sequence[Diagnosis]) -> frozenset[int]:
    """The lines of warnings: what such a line means is known, and nothing ended by it."""
    warnings = (
        finding for finding in known if finding.severity is Severity.WARNING and not finding.general
    )
    return frozenset(
        line.number
        for warning in warnings
        for line in _evidence(warning.failure, log, Source.ANY, most=_WARNED)
    )


def _before(known: Diagnosis, statement: Diagnosis, log: LogText) -> bool:
    """True when what a log states follows from something known.

    A line that only reports that something ended is printed before its reason as well as after it.
    """
    if known.severity is not Severity.SYMPTOM:
        return False
    if known.line == statement.line and statement.failure.id in known.failure.hides:
        return True
    vague = statement.failure.severity is Severity.SYMPTOM
    if known.line == statement.line:
        return vague or not known.sure
    if known.line > statement.line:
        return False
    ended = consequence(log.line(known.line)[:LONGEST_READ])
    return vague or not ended or statement.failure.id == EXCEPTION


def read(text: str, source: Source = Source.ANY, node: str = "") -> tuple[Diagnosis, ...]:
    """All failures whose messages are in a text, in the order of the catalogue.

    What Corral reads on a cluster itself must begin with a message, after time and program: users
    choose names and paths that daemons print further on in a line.

    Args:
        text: a log, a node's reason, a program's output.
        source: where it comes from; ANY for a pasted one.
        node: the node that it is of, "" when unknown.
    """
    return tuple(_read(LogText(text), source, node))


def _read(log: LogText, source: Source, node: str) -> Iterable[Diagnosis]:
    texts = _by_needle(source).items()
    possible = {name for needle, names in texts if log.has(needle) for name in names}
    for failure in catalog().values():
        if failure.id not in possible:
            continue
        plain = _evidence(failure, log, source)
        lines = plain or _evidence(failure, log, source, general=True)
        if lines and _fits(failure, log):
            evidence = tuple(dict.fromkeys(line.shown for line in lines))
            nodes = (node,) if node else ()
            first = min(line.number for line in lines)
            yield Diagnosis(failure, nodes, evidence, line=first, general=not plain)


@cache
def _by_needle(source: Source) -> Mapping[str, tuple[str, ...]]:
    """What a source shows, by a text that a line must have for it: the longest of each pattern.

    Of 1,600 failures a short log can show a few: asking each costs 20 ms, and this 1 ms.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    for failure in catalog().values():
        if failure.shown_by(source) and not failure.stated:
            for pattern in failure.patterns:
                names[max(pattern.expression.needles, key=len)].append(failure.id)
    return {needle: tuple(dict.fromkeys(ids)) for needle, ids in names.items()}


def report(findings: Iterable[Diagnosis]) -> Report:
    """Findings of one kind together, consequences left out, first causes first."""
    merged = _specific(_merged(findings))
    kept = [finding for finding in merged if not _explained(finding, merged)]
    return Report(tuple(sorted(kept, key=_place)))


def _place(finding: Diagnosis) -> tuple[int, int, int, int, tuple[str, ...]]:
    failure = finding.failure
    return _ORDER[finding.severity], failure.layer, finding.line, int(failure.id[1:]), finding.nodes


def _program_errors(log: LogText, known: Sequence[Diagnosis]) -> Iterable[Diagnosis]:
    """The first exception that is the program's own, where no known failure raised it."""
    taken = [
        number
        for finding in known
        if finding.failure.id != PROGRAM_ERROR
        for number in _numbers(finding, log)
    ]
    for trace in tracebacks(log):
        if trace.own and not any(trace.line <= number <= trace.line + _AFTER for number in taken):
            yield _of_program(trace)
            return


def _numbers(finding: Diagnosis, log: LogText) -> Iterable[int]:
    if finding.failure.severity is Severity.ERROR:
        lines = _evidence(finding.failure, log, Source.ANY, general=finding.general, most=50)
        yield from (line.number for line in lines)


def _of_program(trace: Traceback) -> Diagnosis:
    detail = f"{trace.exception} at {trace.place}" if trace.place else trace.exception
    return Diagnosis(catalog()[trace.failure], (), (trace.shown,), detail, trace.line)


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
    lines: dict[str, Line] = {}
    live = source in LIVE
    for pattern in failure.patterns:
        if pattern.general is not general:
            continue
        # A gap in an expression could be filled by a name that a user chose.
        if live and not (pattern.live and pattern.expression.unbroken):
            continue
        taken = 0
        for line in log.matches(pattern.expression, head=live):
            if failure.excludes(line.text):
                continue
            if source is Source.KERNEL and not of_kernel(pattern.expression, line.text):
                continue
            lines.setdefault(line.shown, line)
            taken += 1
            if taken == most:
                break
    return sorted(lines.values(), key=lambda line: line.number)[:most]


def _merged(findings: Iterable[Diagnosis]) -> list[Diagnosis]:
    """One per failure and case, with all its nodes."""
    by_case: dict[tuple[str, str], Diagnosis] = {}
    for finding in findings:
        key = (finding.failure.id, finding.detail)
        before = by_case.get(key)
        by_case[key] = finding if before is None else _both(before, finding)
    return list(by_case.values())


def _specific(findings: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Without those that name no case where another of the same failure names one."""
    detailed = [f for f in findings if f.detail]
    return [
        finding
        for finding in findings
        if finding.detail
        or not any(
            other.failure.id == finding.failure.id and set(finding.nodes) <= set(other.nodes)
            for other in detailed
        )
    ]


def _both(before: Diagnosis, finding: Diagnosis) -> Diagnosis:
    nodes = tuple(dict.fromkeys((*before.nodes, *finding.nodes)))
    evidence = tuple(dict.fromkeys((*before.evidence, *finding.evidence)))
    kept = evidence[: MOST_LINES * 2]
    general = before.general and finding.general
    against = before.contrary and finding.contrary
    return Diagnosis(finding.failure, nodes, kept, finding.detail, before.line, general, against)


def _explained(finding: Diagnosis, others: Sequence[Diagnosis]) -> bool:
    """True when a deeper failure accounts for it on all its nodes."""
    hiders = [other for other in others if _hides(other, finding)]
    if not hiders:
        return False
    if not finding.nodes or any(not h.nodes for h in hiders):
        return True
    return set(finding.nodes) <= {node for h in hiders for node in h.nodes}


def _hides(cause: Diagnosis, other: Diagnosis) -> bool:
    if other.failure.id in cause.failure.hides:
        return cause.sure or other.severity is not Severity.ERROR
    return cause.severity is Severity.ERROR and other.severity is Severity.SYMPTOM
