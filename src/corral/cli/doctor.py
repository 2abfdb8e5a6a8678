"""``corral doctor``: what is broken, why, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.cli.options import CLUSTER, JSON, TARGET, examples, verb_app
from corral.cli.text import clean, plural
from corral.cli.ui import Ui
from corral.cli.which import cluster
from corral.doctor.model import Diagnosis, Mend, Report
from corral.errors import Code, CorralError, Exit

app = verb_app()
LARGEST = 1 << 28
"""Bytes of a log that are read."""


@app.command(
    epilog=examples(
        "corral doctor lab.yaml",
        "corral doctor --log slurmctld.log",
        "srun train.sh 2>&1 | corral doctor --log -",
    )
)
def doctor(
    target: TARGET = "",
    wanted: CLUSTER = "",
    log: Annotated[
        str,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Look at this log instead of a cluster: of Slurm, a job, NCCL, the kernel, apt. "
            "- is standard input.",
            show_default=False,
        ),
    ] = "",
    as_json: JSON = False,
) -> int:
    """Say what is broken, why, and what to do; changes nothing.

    Looks at every machine once, holds what it saw against a catalogue of known failures, and names
    first causes before what follows from them. Exit status 1 when something is wrong.
    """
    ui = Ui(as_json=as_json)
    if log:
        found = api.doctor_log(_text(log))
    else:
        spec = cluster(ui, target, wanted)
        found = ui.quietly(lambda: api.doctor(spec))
    ui.json({"healthy": found.healthy, "findings": [f.as_dict() for f in found.findings]})
    for number, finding in enumerate(found.findings, 1):
        ui.show(*_view(number, finding), Text())
    ui.show(_summary(found, what="log" if log else "cluster"))
    return Exit.GOOD if found.healthy else Exit.NOT_GOOD


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(LARGEST)
        with Path(file).open(encoding="utf-8", errors="replace") as stream:
            return stream.read(LARGEST)
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, f"{file} cannot be read: {error.strerror}", hint="check the path"
        ) from error


def _view(number: int, finding: Diagnosis) -> list[Text]:
    failure = finding.failure
    head = Text.assemble((f"{number}. ", "dim"), (failure.title, "bold red"))
    if finding.nodes:
        head.append(f" on {', '.join(finding.nodes)}", "bold")
    lines = [head.append(f"  [{failure.id} {failure.name}]", "dim")]
    lines += [Text(f"   | {clean(line)}", "dim") for line in finding.evidence]
    lines.append(Text.assemble(("   why: ", "bold"), failure.cause))
    lines.append(Text.assemble(("   do:  ", "bold"), failure.fix))
    return lines


def _summary(found: Report, what: str) -> Text:
    if found.healthy:
        return Text(f"nothing known is wrong with this {what}", "green")
    count = plural(len(found.findings), "finding")
    text = Text(f"{count}; begin with the first")
    if what == "cluster" and any(f.failure.mend is Mend.APPLY for f in found.findings):
        text.append("; corral up FILE puts right what the cluster file declares", "dim")
    return text
