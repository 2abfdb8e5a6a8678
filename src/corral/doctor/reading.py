"""Which failures a text shows: patterns over lines, causes before their consequences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from corral.doctor.catalog import CATALOG
from corral.doctor.model import Diagnosis, Failure, Report, Source

MOST_LINES: Final = 3
"""Lines of evidence that are kept of each failure."""
LONGEST: Final = 400
"""Characters of one line that are kept."""

HIDES: Final[Mapping[str, tuple[str, ...]]] = {
    # What stands on the left prints what stands on the right as well.
    "F01": ("F86", "F83"),
    "F02": ("F01", "F86", "F83"),
    "F03": ("F86", "F83", "F73", "F22", "F38"),
    "F04": (),
    "F05": ("F83", "F86", "F18"),
    "F12": ("F72", "F10", "F14", "F73", "F83"),
    "F13": ("F72", "F73", "F83", "F10"),
    "F14": ("F72", "F10", "F73", "F83"),
    "F15": ("F72", "F73", "F83", "F22"),
    "F17": ("F86", "F75"),
    "F18": ("F83", "F86", "F73"),
    "F19": ("F86", "F83", "F73"),
    "F22": ("F72", "F73", "F83", "F38"),
    "F23": ("F55",),
    "F24": ("F76", "F10", "F13"),
    "F31": ("F72", "F73", "F83", "F04", "F38"),
    "F52": ("F72", "F15", "F73", "F83"),
    "F53": ("F73", "F83", "F04", "F38"),
    "F54": ("F05", "F18", "F73", "F83", "F86"),
    "F59": (),
    "F67": ("F38", "F73", "F74", "F83"),
    "F68": ("F84",),
    "F69": ("F83", "F73"),
    "F70": ("F73",),
    "F71": ("F38", "F73", "F74", "F83"),
    "F72": ("F73", "F83", "F04", "F38"),
    "F74": ("F73", "F83", "F75", "F38"),
    "F73": ("F83", "F86"),
    "F75": ("F73", "F83", "F86", "F01"),
    "F77": ("F10", "F13", "F76"),
    "F30": ("F88",),
    "F62": ("F30", "F88"),
    "F08": ("F92",),
    "F11": ("F92",),
    "F26": ("F88", "F30"),
    "F89": ("F88",),
    "F90": ("F88",),
    "F101": ("F73", "F83"),
    "F103": ("F90", "F88"),
    "F105": ("F73", "F83", "F86"),
}
"""Failures that a deeper one explains; they are not shown beside it on the same node."""


def read(text: str, source: Source = Source.ANY, node: str = "") -> tuple[Diagnosis, ...]:
    """All failures whose messages stand in a text, in the order of the catalogue.

    Args:
        text: a log, a node's reason, a program's output.
        source: where it comes from; ANY for a pasted one.
        node: whose it is, "" when nobody knows.
    """
    lines, small = text.splitlines(), text.lower()
    found: list[Diagnosis] = []
    for failure in CATALOG.values():
        if not failure.symptoms or not failure.shown_by(source):
            continue
        evidence = _evidence(failure, lines, small)
        if evidence and _fits(failure, text):
            found.append(Diagnosis(failure, (node,) if node else (), evidence))
    return tuple(found)


def report(findings: Iterable[Diagnosis]) -> Report:
    """Findings of one kind together, consequences left out, first causes first."""
    merged = _told_apart(_merged(findings))
    kept = [one for one in merged if not _explained(one, merged)]
    return Report(tuple(sorted(kept, key=lambda d: (d.failure.layer, d.failure.id, d.nodes))))


def _fits(failure: Failure, text: str) -> bool:
    if failure.needed and not any(p.search(text) for p in failure.needed):
        return False
    return not any(p.search(text) for p in failure.excluded)


def _evidence(failure: Failure, lines: Sequence[str], small: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for pattern, held in zip(failure.patterns, failure.held, strict=True):
        if held not in small:
            continue
        for line in lines:
            if pattern.search(line):
                found.setdefault(line.strip()[:LONGEST])
                if len(found) == MOST_LINES:
                    return tuple(found)
    return tuple(found)


def _merged(findings: Iterable[Diagnosis]) -> list[Diagnosis]:
    """One per failure and case, with all its nodes."""
    by_case: dict[tuple[str, str], Diagnosis] = {}
    for one in findings:
        key = (one.failure.id, one.detail)
        before = by_case.get(key)
        by_case[key] = one if before is None else _both(before, one)
    return list(by_case.values())


def _told_apart(findings: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Without those that say no case where another of the same failure does say which."""
    said = [f for f in findings if f.detail]
    return [
        one
        for one in findings
        if one.detail
        or not any(
            other.failure.id == one.failure.id and set(one.nodes) <= set(other.nodes)
            for other in said
        )
    ]


def _both(before: Diagnosis, one: Diagnosis) -> Diagnosis:
    nodes = tuple(dict.fromkeys((*before.nodes, *one.nodes)))
    evidence = tuple(dict.fromkeys((*before.evidence, *one.evidence)))
    return Diagnosis(one.failure, nodes, evidence[: MOST_LINES * 2], one.detail)


def _explained(one: Diagnosis, others: Sequence[Diagnosis]) -> bool:
    """True when a deeper failure accounts for it on all its nodes."""
    hiders = [o for o in others if one.failure.id in HIDES.get(o.failure.id, ())]
    if not hiders:
        return False
    if not one.nodes or any(not h.nodes for h in hiders):
        return True
    return set(one.nodes) <= {node for h in hiders for node in h.nodes}
