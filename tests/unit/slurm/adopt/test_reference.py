"""The committed page agrees with the table; the key table holds what Slurm's source holds."""

from __future__ import annotations

from pathlib import Path

from corral.slurm.adopt.keytable import TABLES, lookup
from corral.slurm.adopt.reference import page
from corral.slurm.adopt.rules import RULES
from corral.spec.slurm.releases import written
from corral.spec.slurm.written_keys import all_keys

REPO = Path(__file__).parents[4]


def test_the_page_is_current() -> None:
    file = REPO / "docs/reference/existing.md"
    assert file.read_text() == page(), "python -m corral.slurm.adopt.reference > " + file.name


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids)


def test_every_key_that_corral_writes_is_known() -> None:
    """Two tables from two readings of the same source: they must agree on releases."""
    for key in all_keys():
        if (key.file, "") not in TABLES:
            continue
        begins = not key.line or key.line.lower() == key.name.lower()
        known = lookup(key.file, "" if begins else key.line, key.name)
        assert known is not None, key
        assert not known.since or known.since <= (key.since or written()[0]), key
        assert not known.until or (key.until and key.until <= known.until), key


def test_spot_checks_of_the_key_table() -> None:
    def row(file: str, first: str, key: str) -> tuple[str, ...]:
        known = lookup(file, first, key)
        assert known is not None
        return tuple(str(r) if r else "" for r in (known.since, known.until, known.dead))

    assert row("slurm.conf", "", "CacheGroups") == ("", "21.08", "")
    assert row("slurm.conf", "", "SlurmctldHost") == ("18.08", "", "")
    assert row("slurm.conf", "", "MetricsType") == ("25.11", "", "")
    assert row("cgroup.conf", "", "CgroupAutomount") == ("", "", "23.11")
    assert row("slurm.conf", "NodeName", "procs") == ("", "", "")
    assert row("gres.conf", "NodeName", "AutoDetect") == ("20.11", "", "")
    assert lookup("slurm.conf", "", "NodeAddr") is None
    assert lookup("slurm.conf", "SlurmUser", "anything") is None
