"""``corral lint``: everything that is wrong with cluster files, from the files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.cli.options import JSON, REHEARSE, examples, verb_app
from corral.cli.text import clean, plural
from corral.cli.ui import Ui
from corral.errors import Exit
from corral.spec.findings import Finding, Level, has_errors

app = verb_app()
STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.INFO: "cyan"}


@app.command(
    epilog=examples(
        "corral lint lab.yaml",
        "corral lint --json clusters/*.yaml",
        "cat lab.yaml | corral lint /dev/stdin",
    )
)
def lint(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Cluster files.", show_default=False)
    ],
    as_json: JSON = False,
    rehearse: REHEARSE = False,
) -> int:
    """Say everything that is wrong with cluster files.

    Each finding has its file, line and column, the rule, what is wrong and what to write instead.
    Reads the files alone: no machine is asked. Exit status 2 when one of the findings is an error.
    """
    ui = Ui(as_json=as_json)
    found = {file: api.lint(Path(file)) for file in files}
    findings = [finding for file in files for finding in found[file]]
    for finding in findings:
        ui.show(*rendered(finding, excerpt=ui.out.is_terminal))
    good = not has_errors(findings)
    ui.json({"good": good, "findings": [finding.as_dict() for finding in findings]})
    ui.show(_summary(files, findings))
    if rehearse:
        for file in (file for file in files if not has_errors(found[file])):
            for note in api.rehearsal(api.load(Path(file)))[1]:
                ui.note(f"rehearsal: {file}: {note}", "dim")
    return Exit.GOOD if good else Exit.USAGE


def rendered(finding: Finding, *, excerpt: bool) -> list[Text]:
    """A finding as one line that editors understand; with ``excerpt`` its source line below."""
    place = f"{finding.file}:{finding.line}:{finding.column}" if finding.line else finding.file
    head = Text.assemble(
        (f"{clean(place)}: ", "bold"),
        (finding.level.value, STYLES[finding.level]),
        (f" [{finding.rule}]: ", "dim"),
        clean(finding.message),
    )
    if not excerpt:
        return [head.append(clean(f". hint: {finding.hint}" if finding.hint else ""))]
    lines = [head, *_excerpt(finding)]
    if finding.hint:
        lines.append(Text.assemble(("  hint: ", "bold"), clean(finding.hint)))
    return lines


def _excerpt(finding: Finding) -> list[Text]:
    try:
        source = Path(finding.file).read_text(encoding="utf-8-sig").split("\n")
        line = source[finding.line - 1] if finding.line else ""
    except (OSError, ValueError, IndexError):
        return []
    if not line.strip():
        return []
    # Tabs become single spaces, so that the caret stands where the column says.
    number = f"{finding.line:>5} | "
    before = clean(line[: finding.column - 1]).replace("\t", " ")
    shown = clean(line.rstrip("\r")).replace("\t", " ")
    caret = f"{'':>5} | {'':{len(before)}}^"
    return [Text(f"{number}{shown}", "dim"), Text(caret, STYLES[finding.level])]


def _summary(files: list[str], findings: list[Finding]) -> Text:
    counts = {level: sum(f.level is level for f in findings) for level in Level}
    parts = [plural(count, level.value) for level, count in counts.items() if count]
    what = plural(len(files), "file")
    if not parts:
        return Text(f"{what}: nothing is wrong", "green")
    return Text(f"{what}: {', '.join(parts)}", "" if counts[Level.ERROR] else "green")
