"""A measurement: its figures, and remarks with outcomes. Data only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

from corral.errors import BAD_JSON, Code, CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.figures import Chart
from corral.prove.model import CheckResult, Evidence, Verdict

MARK: Final = "@@corral-"
TITLES: Final = {
    "network": "The network between nodes",
    "storage": "Shared folders",
    "gpu": "Each GPU",
    "scaling": "Training over several nodes",
}
_VERDICTS: Final = {
    Outcome.PASS: Verdict.PASS,
    Outcome.WARN: Verdict.WARN,
    Outcome.FAIL: Verdict.FAIL,
    Outcome.UNKNOWN: Verdict.SKIP,
}
_ORDER: Final = (Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN, Outcome.PASS)


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding about a measurement.

    Attributes:
        outcome: how grave it is.
        about: what it concerns: a node, two nodes, a folder, a GPU.
        text: a sentence with the figures.
        failure: id of the likely cause in the failure catalogue, "" where none fits.
    """

    outcome: Outcome
    about: str
    text: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement, judged.

    Attributes:
        kind: network, storage, gpu or scaling.
        remarks: the findings, the gravest first.
        figures: all that was measured, JSON-ready; its shape is the kind's own.
        charts: what a report can draw of it.
        job: Slurm's number of the job that measured, 0 when it was not a job.
        nodes: where it ran, as a hostlist.
        partial: interrupted: not all was measured.
    """

    kind: str
    remarks: tuple[Remark, ...]
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])
    charts: tuple[Chart, ...] = ()
    job: int = 0
    nodes: str = ""
    partial: bool = False

    @property
    def outcome(self) -> Outcome:
        """The gravest of all remarks; unknown when there is none."""
        return next((o for o in _ORDER if any(r.outcome is o for r in self.remarks)), _ORDER[2])

    @property
    def good(self) -> bool:
        """True when nothing failed."""
        return self.outcome is not Outcome.FAIL

    def as_dict(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "outcome": self.outcome.value,
            "good": self.good,
            "job": self.job,
            "nodes": self.nodes,
            "partial": self.partial,
            "remarks": [asdict(remark) for remark in self.remarks],
            "figures": dict(self.figures),
            "charts": [chart.as_dict() for chart in self.charts],
        }

    def as_check(self, command: str, seconds: float = 0.0) -> CheckResult:
        """The measurement as a check of a proof, for reports.

        Args:
            command: what was run, as one could type it.
            seconds: how long it took.
        """
        bad = [r for r in self.remarks if r.outcome in (Outcome.FAIL, Outcome.WARN)]
        text = "\n".join(f"{r.outcome.value}: {r.text}" for r in self.remarks)
        return CheckResult(
            f"measure.{self.kind}",
            TITLES[self.kind],
            "measure",
            _VERDICTS[self.outcome],
            "; ".join(r.text for r in (bad or self.remarks)[:3]),
            "; ".join(sorted({f"corral doctor: {r.failure}" for r in bad if r.failure})),
            (Evidence(self.nodes, command, text, charts=self.charts),),
            round(seconds, 3),
        )


def graver_first(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """Failures, warnings, what is not known, what is good; each in the order given."""
    return tuple(sorted(remarks, key=lambda remark: _ORDER.index(remark.outcome)))


def results_of(lines: Sequence[str], kind: str) -> list[dict[str, Any]]:
    """A program's results in lines ``@@corral-KIND {json}``; anything before the mark is skipped.

    Raises:
        CorralError: PARSE_FAILED, such a line holds no JSON object.
    """
    mark = f"{MARK}{kind} "
    results: list[dict[str, Any]] = []
    for line in lines:
        _, begun, rest = line.partition(mark)
        if not begun:
            continue
        try:
            value: object = json.loads(rest)
        except BAD_JSON as error:
            raise unreadable(line) from error
        if not isinstance(value, dict):
            raise unreadable(line)
        results.append(cast("dict[str, Any]", value))
    return results


def unreadable(line: str) -> CorralError:
    """The error for a line that is not what the program writes."""
    return CorralError(
        Code.PARSE_FAILED,
        f"this line of the measurement cannot be read: {line[:200]!r}",
        hint="the job's log was cut or changed; measure again",
    )
