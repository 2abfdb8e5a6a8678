"""Writes docs/reference/slurm-keys.md from the table of keys: ``python -m corral.slurm.reference``.

A test compares the committed page with ``page()``.
"""

from __future__ import annotations

import sys
from typing import Final

from corral.slurm.conf.keys import settable_keys
from corral.spec.impacts import IMPACTS
from corral.spec.slurm.releases import Feature, oldest_tested, since, written
from corral.spec.slurm.written_keys import Key, all_keys

_SINCE: Final = since(Feature.RECONFIGURE_REEXECS)
_TESTED: Final = oldest_tested()
_INTRODUCTION: Final = f"""\
# Slurm keys

Every key that Corral writes to Slurm's files, what it writes, why, and what changing it does to a
live cluster. Written from the same table that writes the files: `python -m corral.slurm.reference`.

Files are written for Slurm {written()[0]} to {written()[-1]}. A key that a release does not know
is left out for it. F-numbers are entries of the failure catalogue.

| impact | what it takes |
|---|---|
| none | nothing |
| reload | `scontrol reconfigure`: jobs go on |
| restart | restart the daemons that read it, or `scontrol reconfigure` since {_SINCE}: jobs go on |
| drain | no job may run meanwhile |
| recreate | another cluster |

Field: the field of the cluster file that decides over the key. `slurm.settings` may give another
value for keys marked *settings*, and add words to those marked *settings add*; it may not have the
others.
"""

_SETTINGS: Final = f"""
## Keys of slurm.settings alone

The other global keys of slurm.conf. They are written only where `slurm.settings` has them. The
impact is that of slurm.conf(5) of {_TESTED}: keys without a note there are read again by `scontrol
reconfigure`, and plugins are loaded at a daemon's start.

| impact | keys |
|---|---|
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
        if file == "slurm.conf":
            sections.append(_settable())
    return "".join(sections)


def _settable() -> str:
    """The keys that only the cluster file sets and a supported release knows, by impact."""
    rows: list[str] = []
    for impact in IMPACTS:
        names = [
            f"{key.name}{_releases(key)}"
            for key in settable_keys().values()
            if key.impact == impact and not (key.until and key.until <= written()[0])
        ]
        if names:
            rows.append(f"| {impact} | {', '.join(names)} |\n")
    return _SETTINGS + "".join(rows)


def _releases(key: Key) -> str:
    since = f" (since {key.since})" if key.since and key.since > written()[0] else ""
    until = f" (until {key.until})" if key.until else ""
    return since + until


def _field(key: Key) -> str:
    """Who decides over it besides Corral."""
    if key.joined:
        return "*settings add*"
    if key.replaceable:
        return "*settings*"
    owner = key.field or key.owner
    return f"`{owner}`" if owner else ""


def _table(keys: list[Key]) -> str:
    shown = any(_field(key) for key in keys)
    head = "| key | Corral writes | why | impact | field | source |"
    rows = [f"\n{head}", "|---|---|---|---|---|---|"]
    if not shown:
        rows = ["\n| key | Corral writes | why | impact | source |", "|---|---|---|---|---|"]
    for key in keys:
        since = f" (since {key.since})" if key.since else ""
        until = f" (until {key.until})" if key.until else ""
        field = (_field(key),) if shown else ()
        name = f"{key.name}{since}{until}"
        cells = (name, key.value, key.reason, key.impact, *field, key.source)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
