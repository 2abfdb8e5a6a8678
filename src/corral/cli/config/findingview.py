"""A finding for people: one line that editors understand, and its source line below."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from corral.cli.terminal.text import clean
from corral.spec.findings import Finding, Level

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
