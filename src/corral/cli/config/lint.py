"""``corral lint``: everything that is wrong with cluster files, from the files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.cli.config import lint_adopted
from corral.cli.config.findingview import rendered
from corral.cli.options import JSON, REHEARSE, examples, verb_app
from corral.cli.terminal.text import plural
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.spec.findings import Finding, Level, has_errors

app = verb_app()


@app.command(
    epilog=examples(
        "corral lint lab.yaml",
        "corral lint --json clusters/*.yaml",
        "cat lab.yaml | corral lint /dev/stdin",
        "corral lint --existing /etc/slurm --from 192.168.1.10 --from 192.168.1.11",
        "corral lint --existing slurm.conf --version 24.11 --fix --output corrected",
    )
)
def lint(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Cluster files; with --existing a folder such as /etc/slurm, or single files.",
            show_default=False,
        ),
    ],
    *,
    as_json: JSON = False,
    rehearse: REHEARSE = False,
    existing: lint_adopted.EXISTING = False,
    facts: lint_adopted.FACTS = None,
    where: lint_adopted.FROM = None,
    release: lint_adopted.RELEASE = "",
    fix: lint_adopted.FIX = False,
    output: lint_adopted.OUTPUT = "",
) -> int:
    """List everything that is wrong with cluster files.

    Each finding has its file, line and column, the rule, what is wrong and what to write instead.
    Reads the files alone: no machine is asked. Exit status 2 when one of the findings is an error.
    With --existing it reads Slurm's own files, hosts, exports, fstab and set-up scripts that
    somebody else wrote, and with --facts or --from compares them with the machines.
    """
    ui = Ui(as_json=as_json)
    if existing:
        request = lint_adopted.Request(files, facts or [], where or [], release, fix, output)
        return lint_adopted.run(ui, request)
    if facts or where or release or fix or output:
        raise lint_adopted.only_existing()
    by_file = {file: api.lint(Path(file)) for file in files}
    findings = [finding for file in files for finding in by_file[file]]
    for finding in findings:
        ui.show(*rendered(finding, excerpt=ui.out.is_terminal))
    good = not has_errors(findings)
    ui.json({"good": good, "findings": [finding.as_dict() for finding in findings]})
    ui.show(_summary(files, findings))
    if rehearse:
        for file in (file for file in files if not has_errors(by_file[file])):
            for note in api.rehearsal(api.load(Path(file)))[1]:
                ui.note(f"rehearsal: {file}: {note}", "dim")
    return Exit.GOOD if good else Exit.USAGE


def _summary(files: list[str], findings: list[Finding]) -> Text:
    counts = {level: sum(f.level is level for f in findings) for level in Level}
    parts = [plural(count, level.value) for level, count in counts.items() if count]
    what = plural(len(files), "file")
    if not parts:
        return Text(f"{what}: nothing is wrong", "green")
    return Text(f"{what}: {', '.join(parts)}", "" if counts[Level.ERROR] else "green")
