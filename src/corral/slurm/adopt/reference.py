"""Writes docs/reference/existing.md from the table of rules.

``python -m corral.slurm.adopt.reference > docs/reference/existing.md``. A test holds
the committed page against ``page()``.
"""

from __future__ import annotations

import sys
from typing import Final

from corral.slurm.adopt.rule import Rule
from corral.slurm.adopt.rules import RULES
from corral.slurm.adopt.source import Kind
from corral.spec.slurm.keys import key_table, obsolete_table

_READ: Final = key_table()
_HEAD: Final = f"""\
# What `corral lint --existing` finds

<!-- Generated: python -m corral.slurm.adopt.reference > docs/reference/existing.md -->

Rules about files that somebody else wrote: Slurm's own, hosts, exports, fstab, sshd_config, set-up
and job scripts. Each finding states file, line, column, what is wrong and what to write instead;
how to use it is in [Adopting](../guide/adopting.md). F-numbers are entries of the failure
catalogue. *facts* as source means that the machines were asked.

Keys are compared with the options tables of Slurm's own source, {_READ.first} to {_READ.last}
(`src/corral/spec/slurm/key_releases.yaml`): one that no release knows is an error, and so is one
that the release in use (`--version`) does not know any more, or not yet. Without `--version` a key
that was removed is a warning. A level in the table is the usual one; a finding may be milder or
sterner.
"""
_TITLES: Final = {
    Kind.SETUP: "Set-up and job scripts (`*.sh`, `*.sbatch`)",
    Kind.FSTAB: "fstab",
}


def page() -> str:
    """The entire page."""
    parts = [_HEAD]
    for kind in Kind:
        rules = [rule for rule in RULES if rule.kind is kind]
        if rules:
            parts.append(f"\n## {_TITLES.get(kind, kind.value)}\n")
            parts.append(_table(rules))
    parts.append("\n## Keys that became something else\n\n")
    parts.append("Still read by the newest release, and reported as `obsolete-key`.\n\n")
    parts.append("| key | since | what it does | write |\n|---|---|---|---|\n")
    parts += [f"| {o.key} | {o.since} | {o.why} | {o.hint} |\n" for o in obsolete_table()]
    return "".join(parts)


def _table(rules: list[Rule]) -> str:
    rows = [
        "\n| rule | level | what it finds | write instead | failure | source |",
        "|---|---|---|---|---|---|",
    ]
    for rule in rules:
        since = f" (since {rule.since})" if rule.since else ""
        cells = (
            f"`{rule.id}`{since}",
            rule.level.value,
            rule.meaning,
            rule.fix,
            rule.failure,
            rule.source,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
