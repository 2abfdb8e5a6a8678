"""What all rules report about given files, and the files with what can be corrected corrected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from corral.slurm.adopt.rule import Problem, Rule
from corral.slurm.adopt.rules import RULES
from corral.slurm.adopt.source import Edit, Kind, Source, applied, kind_of
from corral.slurm.adopt.view import Existing
from corral.spec.findings import Finding, Level

_PASSES: Final = 6
_MODES: Final = {Kind.SLURMDBD: 0o600}


@dataclass(frozen=True, slots=True)
class Judged:
    """One problem with the rule that found it."""

    rule: Rule
    problem: Problem

    @property
    def level(self) -> Level:
        """How bad it is."""
        return self.problem.level or self.rule.level

    @property
    def fixable(self) -> bool:
        """Whether ``corrected`` fixes it."""
        return bool(self.problem.edits or self.problem.makes)

    def finding(self) -> Finding:
        """As the command line and its JSON show it."""
        spot = self.problem.spot
        line, column = spot.source.place(spot.start) if spot.start >= 0 else (0, 0)
        hint = self.problem.hint
        if self.rule.failure:
            hint = f"{hint} ({self.rule.failure})"
        return Finding(
            self.rule.id,
            self.level,
            self.problem.message,
            hint,
            spot.source.name,
            line,
            column,
            self.problem.where,
        )


def judge(existing: Existing) -> tuple[Judged, ...]:
    """Everything that is wrong, in the order of the files and their lines."""
    order = {source.name: at for at, source in enumerate(existing.sources)}
    findings = [
        Judged(rule, problem)
        for rule in RULES
        if rule.holds_for(existing.version)
        for problem in rule.check(existing)
    ]
    rank = {rule.id: at for at, rule in enumerate(RULES)}
    return tuple(
        sorted(
            findings,
            key=lambda j: (
                order[j.problem.spot.source.name],
                j.problem.spot.start,
                rank[j.rule.id],
            ),
        )
    )


def corrected(existing: Existing) -> Existing:
    """The same files with every finding fixed that can be; all other lines stay as they are.

    A correction may show the next fault (a node gets its Gres, and GresTypes is missing), so it
    goes on until nothing more changes.
    """
    for _ in range(_PASSES):
        findings = judge(existing)
        edits = [edit for finding in findings for edit in finding.problem.edits]
        sources = [_edited(source, edits) for source in existing.sources]
        made = dict(finding.problem.makes for finding in findings if finding.problem.makes)
        sources += [_made(existing, kind, text) for kind, text in made.items()]
        if sources == list(existing.sources):
            break
        existing = replace(existing, sources=tuple(sources))
    return existing


def _edited(source: Source, edits: list[Edit]) -> Source:
    text = applied(source.text, [edit for edit in edits if edit.file == source.name])
    mode = source.mode if source.mode is None else _MODES.get(source.kind, source.mode)
    return replace(source, text=text, mode=mode)


def _made(existing: Existing, kind: Kind, text: str) -> Source:
    folder = PurePosixPath(existing.slurm.source.name).parent
    return Source(str(folder / kind.value), kind, text)


def source_of(name: str, data: bytes, mode: int | None = None) -> Source:
    """A file as it was read; what is not UTF-8 comes back byte for byte from ``bytes_of``."""
    text = data.decode("utf-8", "surrogateescape")
    kind, node = kind_of(name, text)
    return Source(name, kind, text, mode, node)


def bytes_of(source: Source) -> bytes:
    """The file as it is to be written."""
    return source.text.encode("utf-8", "surrogateescape")


def fixable(findings: tuple[Judged, ...]) -> Iterator[Judged]:
    """Those that ``corrected`` fixes."""
    return (finding for finding in findings if finding.fixable)
