"""How a proof looks: a table of checks, and below it what failed, why and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from corral.cli.terminal.text import clean, duration, one_line, plural, right, table
from corral.prove.model import CheckResult, Evidence, Proof, Verdict

STYLES: Final = {
    Verdict.PASS: "green",
    Verdict.WARN: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.SKIP: "dim",
}


def proof_view(proof: Proof, *, verbose: bool = False) -> list[RenderableType]:
    """The table, the evidence of what is not good (of all, when verbose), and the verdict."""
    rows = [
        (
            result.check,
            Text(result.verdict.value, STYLES[result.verdict]),
            f"{result.seconds:.1f}",
            result.summary,
        )
        for result in proof.results
    ]
    shown: list[RenderableType] = [table(("check", "verdict", *right("s"), "what was seen"), rows)]
    for result in proof.results:
        bad = result.verdict in (Verdict.FAIL, Verdict.WARN)
        if bad or verbose:
            shown += [Text(), *_details(result)]
    return [*shown, Text(), verdict_line(proof)]


def verdict_line(proof: Proof) -> Text:
    """The verdict in one line."""
    counts = {verdict: proof.count(verdict) for verdict in Verdict}
    seconds = max((result.seconds for result in proof.results), default=0.0)
    words = {"pass": "passed", "warn": "warned", "fail": "failed", "skip": "skipped"}
    parts = [f"{count} {words[verdict]}" for verdict, count in counts.items() if count]
    text = Text.assemble((f"{proof.cluster}: ", "bold"))
    color = "green" if proof.proven else "yellow" if proof.good else "bold red"
    text.append(clean(proof.words), color)
    text.append("; " if proof.good and not proof.proven else ", ")
    text.append(f"{plural(len(proof.results), 'check')}: {', '.join(parts) or 'none'}")
    return text.append(f"; the longest took {duration(seconds)}", "dim")


def _details(result: CheckResult) -> Iterator[Text]:
    head = Text.assemble(
        (f"{result.verdict.value} ", STYLES[result.verdict]), (result.check, "bold")
    )
    yield head.append(f": {one_line(result.title)}: {one_line(result.summary)}")
    if result.hint:
        yield Text.assemble(("  hint: ", "bold"), clean(result.hint))
    for evidence in result.evidence:
        yield from _evidence(evidence)


def _evidence(evidence: Evidence) -> Iterator[Text]:
    where = f"{evidence.node}: " if evidence.node else ""
    yield Text(f"  {where}{one_line(evidence.command)}", "dim")
    for line in evidence.output.splitlines():
        yield Text(f"  | {clean(line)}")
    if evidence.figures:
        figures = ", ".join(f"{k}={v}" for k, v in evidence.figures.items())
        yield Text(f"  = {one_line(figures)}", "dim")
