"""The words of a proof: Verdict, Evidence, CheckResult, Proof. Data only, JSON-ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from corral.errors import Code, CorralError
from corral.prove.figures import Chart, chart_from
from corral.spec.slurm.hostlist import fold

Figure = str | int | float


class Verdict(StrEnum):
    """What one check found."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        node: where it was seen, "" when about several nodes.
        command: what was run, as one could type it; never holds a secret.
        output: what it printed, as much as matters.
        figures: the numbers and names read from the output.
        charts: what a report can draw of them.
    """

    node: str
    command: str
    output: str
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """A check's verdict before it is filed: what the pure judges return."""

    verdict: Verdict
    summary: str
    evidence: tuple[Evidence, ...] = ()
    uncovered: str = ""
    hint: str = ""  # instead of the check's, where the cause is known


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check's outcome.

    Attributes:
        check: the check's id, such as ``smoke.nodes``.
        title: the check in words.
        group: which part of the proof it belongs to.
        verdict: pass, warn, fail or skip.
        summary: one line: what was seen, or why it was skipped.
        hint: likely cause and what to do; "" when it passed or was skipped.
        evidence: what the verdict rests on.
        seconds: how long it took.
        uncovered: what the check should have proven and did not, and why; "" when nothing is left,
            also where it does not apply to the cluster.
    """

    check: str
    title: str
    group: str
    verdict: Verdict
    summary: str
    hint: str = ""
    evidence: tuple[Evidence, ...] = ()
    seconds: float = 0.0
    uncovered: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of checks of one cluster at one time (``at``: unix seconds).

    Attributes:
        cluster: its name.
        at: when.
        results: one for each check that was asked for.
        only: the checks or groups that were asked for, () for all.
        without: nodes that were not checked.
    """

    cluster: str
    at: float
    results: tuple[CheckResult, ...]
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """True when something passed and nothing failed; warnings and skips do not fail."""
        verdicts = {result.verdict for result in self.results}
        return Verdict.PASS in verdicts and Verdict.FAIL not in verdicts

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Why it is not a complete proof, each reason once; () when it is one."""
        asked = (f"only {', '.join(self.only)} was asked for",) if self.only else ()
        without = (f"{fold(self.without)} left out",) if self.without else ()
        return (*asked, *without, *dict.fromkeys(r.uncovered for r in self.results if r.uncovered))

    @property
    def proven(self) -> bool:
        """True when nothing failed and nothing that applies to the cluster was left out."""
        return self.good and not self.uncovered

    @property
    def words(self) -> str:
        """The verdict in words."""
        if not self.good:
            failed = self.count(Verdict.FAIL)
            return "NOT proven" if failed else f"nothing was proven: {'; '.join(self.uncovered)}"
        if self.proven:
            return "proven"
        what = ", ".join(self.only) or "what was checked"
        return f"{what} passed; not a complete proof: {'; '.join(self.uncovered)}"

    def count(self, verdict: Verdict) -> int:
        """How many checks came to this verdict."""
        return sum(result.verdict is verdict for result in self.results)

    def as_dict(self) -> dict[str, object]:
        """For ``--json``, the journal and the page."""
        return {
            "cluster": self.cluster,
            "at": self.at,
            "good": self.good,
            "proven": self.proven,
            "only": list(self.only),
            "without": list(self.without),
            "uncovered": list(self.uncovered),
            "results": [_result_dict(result) for result in self.results],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Proof:
        """Read what ``as_dict`` wrote.

        Raises:
            CorralError: PARSE_FAILED, a field is missing or of the wrong kind.
        """
        try:
            results = tuple(_result_from(item) for item in data["results"])
            only = tuple(str(word) for word in data.get("only", ()))
            without = tuple(str(node) for node in data.get("without", ()))
            return cls(str(data["cluster"]), float(data["at"]), results, only, without)
        except (KeyError, TypeError, ValueError) as error:
            raise CorralError(
                Code.PARSE_FAILED,
                f"this is not a proof: {error!r}",
                hint="only what `corral prove --json` wrote can be read",
            ) from error


def _result_dict(result: CheckResult) -> dict[str, object]:
    return {
        "check": result.check,
        "title": result.title,
        "group": result.group,
        "verdict": result.verdict.value,
        "summary": result.summary,
        "hint": result.hint,
        "seconds": result.seconds,
        "uncovered": result.uncovered,
        "evidence": [
            {
                "node": item.node,
                "command": item.command,
                "output": item.output,
                "figures": dict(item.figures),
                **({"charts": [c.as_dict() for c in item.charts]} if item.charts else {}),
            }
            for item in result.evidence
        ],
    }


def _result_from(item: Mapping[str, Any]) -> CheckResult:
    evidence = tuple(
        Evidence(
            str(entry["node"]),
            str(entry["command"]),
            str(entry["output"]),
            cast("dict[str, Figure]", dict(entry["figures"])),
            tuple(chart_from(chart) for chart in entry.get("charts", ())),
        )
        for entry in item["evidence"]
    )
    return CheckResult(
        str(item["check"]),
        str(item["title"]),
        str(item["group"]),
        Verdict(item["verdict"]),
        str(item["summary"]),
        str(item["hint"]),
        evidence,
        float(item["seconds"]),
        str(item.get("uncovered", "")),
    )
