"""Writes docs/reference/slurm-keys.md from the table of keys: ``python -m corral.slurm.reference``.

A test compares the committed page with ``page()``.
"""

from __future__ import annotations

import sys
from typing import Final

from corral.slurm.conf.keys import Key, all_keys
from corral.slurm.version import NEWEST, OLDEST

_INTRODUCTION: Final = f"""\
# Slurm keys

Every key that Corral writes to Slurm's files, what it writes, why, and what changing it does to a
live cluster. Written from the same table that writes the files: `python -m corral.slurm.reference`.

Files are written for Slurm {OLDEST.release} to {NEWEST.release}. A key that a release does not know
is left out for it. F-numbers are entries of the failure catalogue.

| impact | what it takes |
|---|---|
| none | nothing |
| reload | `scontrol reconfigure`: jobs go on |
| restart | restart the daemons that read it, or `scontrol reconfigure` since 23.11: jobs go on |
| drain | no job may run meanwhile |
| recreate | another cluster |
"""


def page() -> str:
    """The entire page."""
    sections = [_INTRODUCTION]
    for file in dict.fromkeys(key.file for key in all_keys()):
        sections.append(f"\n## {file}\n")
        lines = dict.fromkeys(key.line for key in all_keys() if key.file == file)
        for line in lines:
            if line:
                sections.append(f"\n### Lines that begin with {line}\n")
            sections.append(_table([k for k in all_keys() if k.file == file and k.line == line]))
    return "".join(sections)


def _table(keys: list[Key]) -> str:
    rows = ["\n| key | Corral writes | why | impact | source |", "|---|---|---|---|---|"]
    for key in keys:
        since = f" (since {key.since.release})" if key.since else ""
        until = f" (until {key.until.release})" if key.until else ""
        cells = (f"{key.name}{since}{until}", key.value, key.reason, key.impact, key.source)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
