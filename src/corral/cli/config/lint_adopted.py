"""``corral lint --existing``: what is wrong with files that somebody else wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.cli.config.findingview import rendered
from corral.cli.terminal.output import folder_of
from corral.cli.terminal.text import clean, plural
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.spec.findings import Finding, Level

EXISTING = Annotated[
    bool,
    typer.Option("--existing", help="Read Slurm's own files that somebody else wrote."),
]
FACTS = Annotated[
    list[str] | None,
    typer.Option(
        "--facts",
        metavar="NODE=FILE",
        help="Facts of a node as JSON to compare with (--existing).",
        show_default=False,
    ),
]
FROM = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="[NODE=][USER@]ADDR",
        help="Ask a machine by ssh, read-only, and compare with it (--existing).",
        show_default=False,
    ),
]
RELEASE = Annotated[
    str,
    typer.Option(
        "--version",
        metavar="RELEASE",
        help="The Slurm in use, such as 24.11 (--existing). Left out: the machines' own.",
        show_default=False,
    ),
]
FIX = Annotated[
    bool,
    typer.Option(
        "--fix",
        help="Write corrected copies, FILE.corrected, and show what changes (--existing).",
    ),
]
OUTPUT = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Folder for corrected copies (--fix). Left out: next to the files.",
        show_default=False,
    ),
]
_SECRET = frozenset({"storagepass", "accountingstoragepass", "jobcomppass"})


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    files: list[str]
    facts: list[str]
    where: list[str]
    release: str
    fix: bool
    output: str


def only_existing() -> CorralError:
    """An option that needs --existing was given without it."""
    return CorralError(
        Code.USAGE,
        "--facts, --from, --version, --fix and --output need --existing",
        hint="corral lint --existing /etc/slurm ...",
    )


def run(ui: Ui, request: Request) -> int:
    """Judge the files; with ``fix`` write corrected copies."""
    if request.output and not request.fix:
        raise CorralError(Code.USAGE, "--output needs --fix", hint="add --fix")
    folder = folder_of(request.output) if request.output else None
    machines: dict[str, api.Machine] = {}
    for text in request.facts:
        node, equals, file = text.partition("=")
        if not equals:
            raise CorralError(Code.USAGE, f"--facts {text}: no node", hint="--facts NODE=FILE")
        machines[node] = api.machine_from_file(node, file)
    if request.where:
        machines |= ui.run(
            lambda emit: api.ask_machines(request.where, emit), state="nothing was changed"
        )
    opinion = api.lint_existing(request.files, version=request.release, machines=machines)
    for finding, fixable in zip(opinion.findings, opinion.fixable, strict=True):
        plain = ui.out.is_terminal and finding.where.lower() not in _SECRET
        lines = rendered(finding, excerpt=plain)
        if fixable and not request.fix:
            lines[-1].append(" [--fix fixes it]", "dim")
        ui.show(*lines)
    written: tuple[Path, ...] = ()
    if request.fix:
        written = api.write_corrections(opinion.corrections, folder)
        for correction in opinion.corrections:
            ui.show(*_diff(correction.diff()))
    left = [
        finding
        for finding, fixable in zip(opinion.findings, opinion.fixable, strict=True)
        if not (fixable and request.fix)
    ]
    good = not any(finding.level is Level.ERROR for finding in left)
    ui.json(
        {
            "good": good,
            "findings": [
                {**finding.as_dict(), "fixable": fixable}
                for finding, fixable in zip(opinion.findings, opinion.fixable, strict=True)
            ],
            "corrections": [
                {"file": correction.name, "diff": correction.diff()}
                for correction in opinion.corrections
            ],
            "written": [str(path) for path in written],
        }
    )
    for path in written:
        ui.show(Text(f"wrote {clean(str(path))}", "green"))
    ui.show(_summary(len(opinion.existing.sources), opinion.findings, opinion.fixable))
    return Exit.GOOD if good else Exit.USAGE


def _diff(text: str) -> list[Text]:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    return [Text(clean(line), styles.get(line[:1], "")) for line in text.split("\n") if line]


def _summary(files: int, findings: tuple[Finding, ...], fixable: tuple[bool, ...]) -> Text:
    counts = {level: sum(f.level is level for f in findings) for level in Level}
    parts = [plural(count, level.value) for level, count in counts.items() if count]
    what = plural(files, "file")
    if not parts:
        return Text(f"{what}: nothing is wrong", "green")
    text = f"{what}: {', '.join(parts)}; --fix fixes {sum(fixable)} of {len(fixable)}"
    return Text(text, "" if counts[Level.ERROR] else "green")
