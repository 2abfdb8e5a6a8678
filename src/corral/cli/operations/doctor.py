"""``corral doctor``: what is broken, why, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.lifecycle.planview import STATE, Approval
from corral.cli.options import CLUSTER, JSON, TARGET, YES, examples, verb_app
from corral.cli.terminal.files import pasted
from corral.cli.terminal.text import clean, table
from corral.cli.terminal.ui import Ui
from corral.doctor.drain_reason import WhyDrained
from corral.doctor.model import Diagnosis, FatalLine, FixBy, Report, Severity
from corral.doctor.pending_reason import WhyPending
from corral.errors import Code, CorralError, Exit
from corral.plurals import plural
from corral.prove.checks.health import HealthLine
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import fold

STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "none": "dim"}


def health_view(health: api.ClusterHealth) -> list[RenderableType]:
    """A row for each check: nodes with equal results share one; what fails comes first."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for line in sorted(health.lines, key=_gravest):
        groups.setdefault((line.check, line.word, line.text), []).append(line.node)
    rows = [
        (check, Text(word, STYLES[word]), fold(nodes), Text(clean(text)))
        for (check, word, text), nodes in groups.items()
        if word != "none"
    ]
    shown: list[RenderableType] = [table(("check", "", "nodes", "what it sees"), rows)]
    shown += [Text(f"{error.node}: {clean(error.message)}", "bold red") for error in health.silent]
    shown += [Text(clean(sentence), "bold") for sentence in health.common]
    return [*shown, _health_summary(health)]


def _gravest(line: HealthLine) -> int:
    return ("fail", "warn", "ok", "none").index(line.word)


def _health_summary(health: api.ClusterHealth) -> Text:
    nodes = plural(len(health.nodes), "node")
    if health.healthy:
        return Text(f"{nodes}: all checks pass", "green")
    ill = {line.node for line in health.lines if line.word == "fail"}
    ill |= {error.node for error in health.silent}
    return Text(f"{len(ill)} of {nodes} {'is' if len(ill) == 1 else 'are'} not healthy", "bold red")


app = verb_app()
_LOG_SOURCE: Final = "the log of a service: journalctl -u slurmd | corral doctor --log -"
_JOB: Final = re.compile(r"[1-9]\d{0,9}(?:_\d{1,10})?", re.ASCII)
LOG = Annotated[
    str,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Read this log instead of a cluster: of Slurm, a job, NCCL, the kernel, apt. "
        "- is standard input.",
        show_default=False,
    ),
]
NODES = Annotated[
    str,
    typer.Option(
        "--node",
        "-n",
        metavar="NODES",
        help="Nodes that the answer is limited to.",
        show_default=False,
    ),
]
DRAINED = Annotated[
    str,
    typer.Option(
        "--why-drained",
        metavar="NODE",
        help="Explain why this node takes no jobs.",
        show_default=False,
    ),
]
PENDING = Annotated[
    str,
    typer.Option(
        "--why-pending",
        metavar="JOB",
        help="Explain why this job is pending: 1234, or 1234_5 of an array.",
        show_default=False,
    ),
]
HEALTH = Annotated[
    bool,
    typer.Option(
        "--health",
        help="Run the nodes' own health check now and show what it reports; it drains no node.",
    ),
]
FIX = Annotated[
    bool,
    typer.Option(
        "--fix",
        help="Fix what is safe to fix: the cluster file's plan, then nodes that Slurm took "
        "out for a cause that is gone. Shows it and asks.",
    ),
]


@app.command(
    epilog=examples(
        "corral doctor lab.yaml",
        "corral doctor --node node3",
        "corral doctor --why-drained node3",
        "corral doctor --why-pending 1234",
        "corral doctor --health",
        "corral doctor --fix",
        "corral doctor --log slurmctld.log",
        "srun train.sh 2>&1 | corral doctor --log -",
    )
)
def doctor(
    target: TARGET = "",
    named: CLUSTER = "",
    *,
    log: LOG = "",
    nodes: NODES = "",
    drained: DRAINED = "",
    pending: PENDING = "",
    health: HEALTH = False,
    fix: FIX = False,
    yes: YES = False,
    as_json: JSON = False,
) -> int:
    """List what is broken, why, and what to do; changes nothing without --fix.

    Asks every machine once, compares the answers with a catalogue of known failures, and names
    first causes before what follows from them. Exit status 1 when something is wrong, when a log
    has errors that no known failure explains, when that node takes no jobs, or when that job cannot
    start without a change.
    """
    ui = Ui(as_json=as_json)
    modes = [bool(log), bool(nodes) and not health, bool(drained), bool(pending), fix, health]
    if sum(modes) > 1:
        raise CorralError(
            Code.USAGE,
            "--log, --node, --why-drained, --why-pending, --health and --fix do not go together",
            hint="ask one thing at a time; only --health and --node do",
        )
    if pending and not _JOB.fullmatch(pending):
        raise CorralError(
            Code.USAGE,
            f"{pending!r} is not a job number",
            hint="such as 1234, or 1234_5 of an array; corral jobs lists them",
        )
    if log:
        return _report(ui, api.doctor_log(pasted(log, _LOG_SOURCE)), what="log")
    spec = cluster(ui, target, named)
    if drained:
        return _drained(ui, ui.quietly(lambda: api.explain_drained(spec, drained)))
    if pending:
        return _pending(ui, ui.quietly(lambda: api.explain_pending(spec, pending)))
    if health:
        return _health(ui, ui.quietly(lambda: api.node_health(spec, nodes)))
    if fix:
        return _fix(ui, spec, yes=yes)
    return _report(ui, ui.quietly(lambda: api.doctor(spec, nodes)), what="node" if nodes else "")


def _report(ui: Ui, report: Report, what: str) -> int:
    ui.json(report.as_dict())
    for number, finding in enumerate(report.findings, 1):
        ui.show(*_view(number, finding), Text())
    if report.unknown:
        ui.show(Text("no known failure matched; the first fatal lines:", "bold red"))
        ui.show(*_lines(report.unknown))
        return Exit.NOT_GOOD
    for notice in report.notices:
        text = Text(f"line {notice.number} is not the cause of a failure: {notice.why}", "green")
        ui.show(text, Text(f"   | {clean(notice.text)}", "dim"))
    if report.notable:
        ui.show(Text("no known failure matched and no line reports an error; lines to read:"))
        ui.show(*_lines(report.notable))
        return Exit.GOOD
    for out in report.out_of_service:
        ui.show(Text(f"takes no jobs: {clean(out.text)}", "yellow"))
    ui.show(_summary(report, what=what or "cluster"))
    return Exit.GOOD if report.healthy else Exit.NOT_GOOD


def _lines(lines: Sequence[FatalLine]) -> list[Text]:
    return [Text(f"   line {line.number}: {clean(line.text)}") for line in lines]


def _health(ui: Ui, health: api.ClusterHealth) -> int:
    ui.json(health.as_dict())
    ui.show(*health_view(health))
    return Exit.GOOD if health.healthy else Exit.NOT_GOOD


def _drained(ui: Ui, why: WhyDrained) -> int:
    ui.json(why.as_dict())
    head = "takes jobs" if why.usable else "takes no jobs"
    ui.show(Text.assemble((f"{why.node} {head}", "bold"), f": {'; '.join(why.words)}"))
    if why.reason:
        who = f", by {why.by} at {why.at}" if why.by else ""
        ui.show(Text(f"   reason: {clean(why.reason)}{who}"))
    ui.show(Text(f"   means:  {clean(why.meaning)}"))
    if why.advice:
        ui.show(Text(f"   do:     {clean(why.advice)}"))
    for number, finding in enumerate(why.findings, 1):
        ui.show(Text(), *_view(number, finding))
    return Exit.GOOD if why.usable else Exit.NOT_GOOD


def _pending(ui: Ui, why: WhyPending) -> int:
    ui.json(why.as_dict())
    text = Text.assemble((f"job {why.job}", "bold"), f" is {why.state.lower()}: {clean(why.words)}")
    ui.show(text.append(f" [{why.reason}]" if why.reason else "", "dim"))
    for line in why.missing:
        ui.show(Text(f"   {clean(line)}"))
    if why.ahead:
        ui.show(Text(f"   {plural(why.ahead, 'job')} with a higher priority before it"))
    if why.starts is not None and why.words and not why.stuck:
        when = datetime.fromtimestamp(why.starts, UTC).astimezone()
        ui.show(Text(f"   start: {when:%Y-%m-%d %H:%M:%S %Z}, by Slurm's estimate"))
    if why.advice:
        ui.show(Text(f"   do: {clean(why.advice)}"))
    return Exit.NOT_GOOD if why.stuck else Exit.GOOD


def _fix(ui: Ui, spec: ClusterSpec, *, yes: bool) -> int:
    approval = Approval(ui, yes=yes)

    def may_resume(nodes: tuple[str, ...]) -> bool:
        ui.note(f"resume {', '.join(nodes)}: Slurm took them out for a cause that is gone")
        return ui.confirm("Do it?", yes=yes, state=STATE)

    done = ui.run(lambda emit: api.repair(spec, emit, approval, may_resume), state=STATE)
    ui.json({**done.as_dict(), "plans": approval.plans})
    if done.before.healthy:
        ui.show(Text("nothing known is wrong with this cluster", "green"))
        return Exit.GOOD
    if done.applied is False:
        ui.note("nothing was changed" if len(approval.plans) == 1 else "the rest was not done")
    elif done.applied and not approval.plans:
        ui.note("the cluster file's plan has nothing to fix here")
    if done.resumed:
        ui.show(f"resumed: {', '.join(done.resumed)}")
    for number, finding in enumerate(done.after.findings, 1):
        ui.show(*_view(number, finding), Text())
    left = plural(len(done.after.findings), "finding")
    ui.show("all findings are fixed" if done.after.healthy else f"{left} left")
    return Exit.GOOD if done.after.healthy else Exit.NOT_GOOD


def _view(number: int, finding: Diagnosis) -> list[Text]:
    failure = finding.failure
    title = failure.title
    if failure.stated:
        title = f"by the log's own words, {title}"
    elif failure.severity is Severity.SYMPTOM:
        title = f"a consequence, its cause is elsewhere: {title}"
    elif finding.general:
        title = f"several causes print this, read the lines before it: {title}"
    if finding.contrary:
        title = f"the log disproves the usual cause, look for another one: {failure.title}"
    head = Text.assemble((f"{number}. ", "dim"), (title, "bold red"))
    if finding.line and finding.detail:
        head.append(f": {clean(finding.detail)}", "bold")
    if finding.nodes:
        head.append(f" on {', '.join(finding.nodes)}", "bold")
    lines = [head.append(f"  [{failure.id} {failure.name}]", "dim")]
    if finding.line:
        lines.append(Text(f"   from line {finding.line}:", "dim"))
    lines += [Text(f"   | {clean(line)}", "dim") for line in finding.evidence]
    if finding.contrary:
        lines.append(Text.assemble(("   but: ", "bold"), clean(finding.contrary)))
    lines.append(Text.assemble(("   why: ", "bold"), failure.cause))
    lines.append(Text.assemble(("   do:  ", "bold"), failure.fix))
    return lines


def _summary(report: Report, what: str) -> Text:
    if report.healthy and what == "log":
        return Text("no known failure matched and no line reports an error")
    if report.healthy and report.out_of_service:
        out = report.out_of_service
        first = f"corral doctor --why-drained {out[0].node}"
        return Text(f"no known failure; {plural(len(out), 'node')} out of service: {first}")
    if report.healthy:
        return Text(f"nothing known is wrong with this {what}", "green")
    count = plural(len(report.findings), "finding")
    text = Text(f"{count}; begin with the first")
    if what == "cluster" and any(f.failure.fix_by is FixBy.APPLY for f in report.findings):
        text.append("; corral doctor --fix fixes what is safe to fix", "dim")
    return text
