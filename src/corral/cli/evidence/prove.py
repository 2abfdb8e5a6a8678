"""``corral prove``: does the cluster work? Its tables, and two proofs compared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, HTML, JSON, REHEARSE, TARGET, examples, verb_app
from corral.cli.terminal.text import clean, duration, one_line, right, table
from corral.cli.terminal.ui import Ui
from corral.durations import interval_seconds
from corral.errors import Code, CorralError, Exit
from corral.plurals import plural
from corral.prove.compare import Change, Comparison
from corral.prove.model import CheckResult, Evidence, Proof, Verdict
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import expand

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


CHANGE_STYLES: Final = {
    Change.WORSE: "bold red",
    Change.BETTER: "green",
    Change.NEW: "cyan",
    Change.GONE: "dim",
}


def compare_view(comparison: Comparison) -> list[RenderableType]:
    """What changed, worse first, and the outcome in one line."""
    rows = [
        (
            Text(difference.change.value, CHANGE_STYLES[difference.change]),
            clean(difference.check),
            clean(difference.node),
            clean(difference.figure) or "verdict",
            clean(difference.before),
            clean(difference.after),
            clean(difference.words),
        )
        for difference in comparison.differences
    ]
    head = ("", "check", "node", "what", *right("before", "after"), "")
    line = Text(f"{_moment(comparison.before)} to {_moment(comparison.after)}: ")
    line.append(comparison.words, "bold red" if comparison.worse else "green")
    return [*([table(head, rows)] if rows else []), line]


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


app = verb_app()
ONLY = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="CHECK|GROUP",
        help="Run these checks alone; may be given several times.",
    ),
]
WITHOUT = Annotated[
    str,
    typer.Option(
        "--without",
        metavar="NODES",
        help="Leave out these nodes, such as node[3,7-9]; the proof is not complete then. "
        "Default: none.",
        show_default=False,
    ),
]
VERBOSE = Annotated[bool, typer.Option("--verbose", "-v", help="Show the evidence of every check.")]


@app.command(
    epilog=examples(
        "corral prove",
        "corral prove lab.yaml --verbose",
        "corral prove lab.yaml --html proof.html",
        "corral prove -c lab --only isolation --only smoke.clocks",
        "corral prove --without node[3,7-9]",
        "corral prove --history",
        "corral prove --compare previous last",
        "corral prove --compare 2026-11-01 2026-11-21 --html change.html",
    )
)
def prove(
    target: TARGET = "",
    *,
    named: CLUSTER = "",
    only: ONLY = None,
    without: WITHOUT = "",
    verbose: VERBOSE = False,
    html: HTML = None,
    history: Annotated[
        bool, typer.Option("--history", help="List earlier proofs instead of making one.")
    ] = False,
    compared: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare",
            metavar="A B",
            help="Compare two earlier proofs instead of making one: ids of --history or their "
            "beginnings, dates, last, previous.",
            show_default=False,
        ),
    ] = None,
    rehearse: REHEARSE = False,
    as_json: JSON = False,
) -> int:
    """Check with evidence that the cluster works.

    Runs real jobs for about half a minute and leaves nothing behind. Each check that fails reports
    what was seen, the likely cause and what to do. Exit status 1 when a check failed, or, with
    --compare, when something got worse; 0 when none failed. "proven" means a complete proof: with
    --only or --without, or while jobs are running on nodes, the last line states what passed and
    what is not covered (--json: proven, uncovered). Each proof is kept: see --history.
    """
    ui = Ui(as_json=as_json)
    _together(bool(only or without), history=history, compared=compared, html=html)
    spec = cluster(ui, target, named, rehearse=rehearse)
    if history:
        return _history(ui, spec)
    if compared:
        return _compare(ui, spec, compared, html)
    nodes = expand(without, strict=True) if without else ()
    proof = ui.run(
        lambda emit: api.prove(spec, emit, only=tuple(only or ()), without=tuple(nodes)),
        state="the cluster is as it was; nothing is proven",
    )
    ui.json(proof.as_dict())
    ui.show(*proof_view(proof, verbose=verbose))
    if html is not None:
        partial = bool(only or without)
        since = api.since_last(spec.name, proof, partial=partial)
        before = () if partial else api.last_measured(spec.name)
        written(ui, html, api.proof_page(proof, since, before))
    return Exit.GOOD if proof.good else Exit.NOT_GOOD


def written(ui: Ui, path: Path, page: str) -> None:
    """Write a page and print its path."""
    api.write_page(path, page)
    ui.note(f"report: {path}")


def _together(
    chosen: bool,
    *,
    history: bool,
    compared: tuple[str, str] | None,
    html: Path | None,
) -> None:
    if sum((chosen, history, bool(compared))) > 1 or (history and html):
        raise CorralError(
            Code.USAGE,
            "--only or --without, --history and --compare do not go together, nor --history "
            "and --html",
            hint="--html goes with a proof, with --only and with --compare",
        )


def _history(ui: Ui, spec: ClusterSpec) -> int:
    _fetch(ui, spec)
    kept = api.proofs(spec.name)
    ui.json({"history": [entry.as_dict() for entry in kept]})
    rows = [
        (
            entry.id,
            time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.proof.at)),
            entry.by + (" (some checks)" if entry.partial and entry.by == "prove" else ""),
            _verdict(entry),
            str(len(entry.proof.results)),
            clean(", ".join(r.check for r in entry.proof.results if r.verdict is Verdict.FAIL)),
        )
        for entry in kept
    ]
    if rows:
        ui.show(table(("id", "date", "by", "verdict", *right("checks"), "failed"), rows))
    else:
        ui.note("no proof was kept yet: corral prove")
    return Exit.GOOD


def _verdict(entry: api.Kept) -> Text:
    if entry.proof.proven and not entry.partial:
        return Text("proven", "green")
    if entry.proof.good:
        return Text("passed in part", "yellow")
    if entry.proof.count(Verdict.FAIL):
        return Text("NOT proven", "bold red")
    if entry.proof.count(Verdict.WARN):
        return Text("warned", "yellow")
    return Text("nothing measured", "dim")


def _fetch(ui: Ui, spec: ClusterSpec) -> None:
    """What the cluster ran on its schedule; what is here is shown also while it does not answer."""
    if not interval_seconds(spec.proof.every):
        return
    try:
        ui.quietly(lambda: api.fetch_rounds(spec))
    except CorralError as error:
        ui.note(f"the cluster's own rounds could not be read: {error.message}", "yellow")


def _compare(ui: Ui, spec: ClusterSpec, words: tuple[str, str], html: Path | None) -> int:
    _fetch(ui, spec)
    kept = api.proofs(spec.name)
    changes = api.compare_proofs(spec.name, *words)
    ui.json(changes.as_dict())
    ui.show(*compare_view(changes))
    if html is not None:
        newer = max((api.chosen_proof(kept, word) for word in words), key=lambda k: k.proof.at)
        written(ui, html, api.proof_page(newer.proof, changes))
    return Exit.NOT_GOOD if changes.worse else Exit.GOOD
