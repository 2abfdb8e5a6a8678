"""Adds up what ``./test`` ran: lint results and each suite's junit file, skips with their reasons.

The last line is ``N passed, N failed, N skipped``: CI reads it. A suite without a complete junit
file (killed, or broken before it began), or one that was interrupted, counts as failed. Tests that
failed and ran again are listed; more than ``SHARE_RERUNS`` of them
count as failed.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET  # only files that pytest has just written are read

from rich.console import Console
from rich.table import Table

ENDED = {"0", "1", "5"}
"""pytest's statuses of a suite that came to its end: all good, some failed, no tests."""


def suite_counts(junit: Path, reasons: Counter[tuple[str, str]], status: str = "0") -> Counter[str]:
    """Count one suite's cases; ``reasons`` collects (suite, why) of those skipped.

    pytest writes a junit file without a word of it when an interrupt ends it: the exit status of
    the suite shows it, and counts as one failed.
    """
    counts: Counter[str] = Counter(failed=int(status not in ENDED))
    try:
        elements = ET.parse(junit).getroot().iter("testcase")  # noqa: S314
    except ET.ParseError:
        return Counter(failed=1)
    # A test that ran again has two cases there; the first has no outcome, the last counts.
    cases = {(case.get("classname"), case.get("name")): case for case in elements}
    for case in cases.values():
        outcome = {child.tag for child in case}
        if outcome & {"failure", "error"}:
            counts["failed"] += 1
        elif "skipped" in outcome:
            counts["skipped"] += 1
            skipped = case.find("skipped")
            reasons[junit.stem, skipped.get("message", "") if skipped is not None else ""] += 1
        else:
            counts["passed"] += 1
    return counts if cases else Counter(failed=1)


MOST_RERUNS = 3
SHARE_RERUNS = 0.01
"""How many may run again: some, or this share of the tests with clusters that ran. With more of
them there is a cause to find (CONTRIBUTING.md, Tests)."""
WITHOUT_RERUNS = {"lint", "unit"}


def reruns(out: Path) -> list[str]:
    """``TEST: reason`` for each test that failed and ran again, whatever its second result was."""
    lines = [
        line for file in sorted(out.glob("*.reruns")) for line in file.read_text().splitlines()
    ]
    return [": ".join(line.split("\t", 1)) for line in lines]


def suite_minutes(junit: Path) -> str:
    """How long a suite took, as ``12:34``; "" when its junit file has no times."""
    try:
        suites = ET.parse(junit).getroot().iter("testsuite")  # noqa: S314
        seconds = round(sum(float(suite.get("time", "0")) for suite in suites))
    except ET.ParseError:
        return ""
    return f"{seconds // 60}:{seconds % 60:02}"


def main(out: Path) -> int:
    """Print the table and the last line; 1 when anything failed."""
    reasons: Counter[tuple[str, str]] = Counter()
    table = Table("suite", "passed", "failed", "skipped", "min:s", title="./test")
    total: Counter[str] = Counter()
    rows = {"lint": Counter[str]()}
    for line in (out / "lint").read_text().splitlines():
        rows["lint"]["passed" if line.endswith("\t0") else "failed"] += 1
    by_age = sorted(out.glob("*.xml"), key=lambda x: x.stat().st_mtime)  # as they ran
    statuses = dict(line.split("\t") for line in (out / "suites").read_text().splitlines())
    rows |= {x.stem: suite_counts(x, reasons, statuses.get(x.stem, "none")) for x in by_age}
    for suite, counts in rows.items():
        total += counts
        numbers = (str(counts[k]) for k in ("passed", "failed", "skipped"))
        junit = out / f"{suite}.xml"
        table.add_row(suite, *numbers, suite_minutes(junit) if junit.exists() else "")
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(table)
    if (part := out / "part").exists():
        console.print(f"slow tests: part {part.read_text().strip()}; see CONTRIBUTING.md, Tests")
    for (suite, why), number in sorted(reasons.items()):
        text = re.sub(r"\s+", " ", why) or "no reason given"
        console.print(f"skipped in {suite} ({number}): {text}", markup=False, highlight=False)
    again = reruns(out)
    for line in again:
        console.print(f"failed and ran again: {line}", markup=False, highlight=False)
    ran = sum(
        counts["passed"] + counts["failed"]
        for suite, counts in rows.items()
        if suite not in WITHOUT_RERUNS
    )
    most = max(MOST_RERUNS, int(ran * SHARE_RERUNS))
    if len(again) > most:
        console.print(f"{len(again)} tests failed and ran again, at most {most} of {ran} may")
        total["failed"] += 1
    # print, not the console: the line must be unwrapped and without colour.
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
