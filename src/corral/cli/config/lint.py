"""``corral lint``: everything that is wrong with cluster files or others' files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.cli.options import JSON, REHEARSE, examples, verb_app
from corral.cli.terminal.files import folder_of
from corral.cli.terminal.text import clean
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.plurals import plural
from corral.spec.findings import Finding, Level, has_errors

STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.INFO: "cyan"}


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
    # Tabs become single spaces, so that the caret is at the column given.
    number = f"{finding.line:>5} | "
    before = clean(line[: finding.column - 1]).replace("\t", " ")
    shown = clean(line.rstrip("\r")).replace("\t", " ")
    caret = f"{'':>5} | {'':{len(before)}}^"
    return [Text(f"{number}{shown}", "dim"), Text(caret, STYLES[finding.level])]


EXISTING = Annotated[
    bool,
    typer.Option("--existing", help="Read Slurm's own files that Corral did not write."),
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
        help="Slurm release in use, such as 24.11 (--existing). Default: the machines' own.",
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
        help="Folder for corrected copies (--fix). Default: next to the files.",
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
            ui.show(*diff_lines(correction.diff()))
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
    ui.show(_adopted_summary(len(opinion.existing.sources), opinion.findings, opinion.fixable))
    return Exit.GOOD if good else Exit.USAGE


def diff_lines(text: str) -> list[Text]:
    """A change of a text as coloured lines."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    return [Text(clean(line), styles.get(line[:1], "")) for line in text.split("\n") if line]


def _adopted_summary(files: int, findings: tuple[Finding, ...], fixable: tuple[bool, ...]) -> Text:
    counts = {level: sum(f.level is level for f in findings) for level in Level}
    parts = [plural(count, level.value) for level, count in counts.items() if count]
    what = plural(files, "file")
    if not parts:
        return Text(f"{what}: nothing is wrong", "green")
    text = f"{what}: {', '.join(parts)}; --fix fixes {sum(fixable)} of {len(fixable)}"
    return Text(text, "" if counts[Level.ERROR] else "green")


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
    existing: EXISTING = False,
    facts: FACTS = None,
    where: FROM = None,
    release: RELEASE = "",
    fix: FIX = False,
    output: OUTPUT = "",
) -> int:
    """List everything that is wrong with cluster files.

    Each finding has its file, line and column, the rule, what is wrong and what to write instead.
    Reads the files alone: no machine is asked. Exit status 2 when one of the findings is an error.
    With --existing it reads Slurm's own files, hosts, exports, fstab and set-up scripts that
    Corral did not write, and with --facts or --from compares them with the machines.
    """
    ui = Ui(as_json=as_json)
    if existing:
        request = Request(files, facts or [], where or [], release, fix, output)
        return run(ui, request)
    if facts or where or release or fix or output:
        raise only_existing()
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
