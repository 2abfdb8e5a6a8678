"""Each cluster's files, byte by byte, and the table of keys against all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.slurm.conf.conf_file import Setting, assembled
from corral.slurm.conf.keys import every_key, settable_keys
from corral.slurm.conf.parse import parse
from corral.slurm.version import SlurmVersion
from corral.spec.slurm.written_keys import Key, all_keys, keys_by_id
from corral.tables import parse_table
from tests.unit.slurm.clusters import CLUSTERS, LAPTOP, render

GOLDEN = Path(__file__).parents[3] / "golden" / "slurm"
LINE_KEYS = {"nodename", "partitionname", "switchname"}


@pytest.mark.parametrize("name", CLUSTERS)
def test_golden(name: str) -> None:
    for file, text in render(CLUSTERS[name]).items():
        golden = GOLDEN / name / file
        if not golden.exists():
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(text)
        assert text == golden.read_text(), f"re-record with: rm -r {GOLDEN / name}"
    assert {path.name for path in (GOLDEN / name).iterdir()} == set(render(CLUSTERS[name]))


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(CLUSTERS)


def written() -> dict[tuple[str, str, str], set[SlurmVersion]]:
    """Every key of every golden file, with the releases it was written for."""
    releases: dict[tuple[str, str, str], set[SlurmVersion]] = {}
    for name, conf in CLUSTERS.items():
        for path in (GOLDEN / name).iterdir():
            for line in parse(path.read_text()).lines():
                assert line.rest == ""
                first = line.pairs[0].key.lower() if line.pairs else ""
                for pair in line.pairs:
                    about = first if first in LINE_KEYS else ""
                    entry = (path.name, about, pair.key.lower())
                    releases.setdefault(entry, set()).add(conf.version)
    return releases


def test_every_key_written_is_in_the_table_and_every_entry_is_written() -> None:
    assert set(written()) - set(settable_keys()) == set(keys_by_id())


def test_no_key_is_written_to_a_release_that_does_not_know_it() -> None:
    for entry, versions in written().items():
        assert all(every_key()[entry].known_to(version.release) for version in versions), entry


def test_a_key_of_a_later_release_is_left_out_of_an_earlier_one() -> None:
    row = ROW.replace("22.05", "{}")
    later, gone = parse_table(
        row.format("22.05") + row.replace("since", "until").format("23.11"),
        "keys.yaml",
        tuple[Key, ...],
    )
    old, new = SlurmVersion(21, 8, 8), SlurmVersion(24, 5)
    assert [later.known_to(old.release), later.known_to(new.release)] == [False, True]
    assert [gone.known_to(old.release), gone.known_to(new.release)] == [True, False]
    no_systemd = CLUSTERS["no-systemd"]
    assert "IgnoreSystemd=yes" in render(no_systemd)["cgroup.conf"]
    on_v1 = replace(no_systemd, cgroup="v1", version=SlurmVersion(21, 8, 5), auth="munge")
    assert "IgnoreSystemd" not in render(on_v1)["cgroup.conf"]


def test_entries_of_the_table_are_one_for_each_key() -> None:
    assert len(keys_by_id()) == len(all_keys()), "two entries for one key"
    assert len(all_keys()) > 100


ROW = """\
- file: cgroup.conf
  name: IgnoreSystemd
  value: yes, without systemd
  reason: There is no dbus to ask for a scope.
  impact: drain
  source: cgroup.conf(5), F15
  since: '22.05'
"""


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("  reason: There is no dbus to ask for a scope.\n", "", "keys.yaml:1:3: 0.reason: Field"),
        ("scope.", "scope", "keys.yaml:4:3: 0.reason: String should match"),
        ("  reason: There is no dbus to ask for a scope.", "  reason: ''", "keys.yaml:4:3"),
        ("  impact: drain\n", "", "keys.yaml:1:3: 0.impact: Field required"),
        ("drain", "stern", "keys.yaml:5:3: 0.impact: Input should be"),
        ("  source: cgroup.conf(5), F15\n", "", "keys.yaml:1:3: 0.source: Field required"),
        ("cgroup.conf(5), F15", "hearsay", "keys.yaml:6:3: 0.source: String should match"),
        ("yes, without systemd", "''", "keys.yaml:3:3: 0.value: String should have"),
        ("file: cgroup.conf", "file: cgroups.conf", "keys.yaml:1:3: 0.file: Input should be"),
        ("IgnoreSystemd", "Ignore Systemd", "keys.yaml:2:3: 0.name: String should match"),
        ("'22.05'", "22.05", "keys.yaml:7:3: 0.since: Value error, not a release in quotes"),
        ("since", "from", "keys.yaml:7:3: 0.from: Extra inputs"),
    ],
)
def test_an_entry_without_reason_or_impact_is_refused(before: str, after: str, place: str) -> None:
    assert parse_table(ROW, "keys.yaml", tuple[Key, ...])
    assert before in ROW
    with pytest.raises(CorralError) as caught:
        parse_table(ROW.replace(before, after), "keys.yaml", tuple[Key, ...])
    assert place in caught.value.message


def test_a_key_that_is_not_in_the_table_cannot_be_written() -> None:
    version = SlurmVersion(24, 11)
    with pytest.raises(KeyError):
        assembled("slurm.conf", version, [Setting("LaunchParameters", "use_interactive_step")])
    with pytest.raises(KeyError):
        assembled("slurm.conf", version, lines=[(("NodeName", "n1"), ("Weight", "1"))])


def test_two_values_of_one_key_are_joined_or_refused() -> None:
    version = SlurmVersion(24, 11)
    flags = [Setting("DebugFlags", "NO_CONF_HASH"), Setting("DebugFlags", "Gres")]
    assert assembled("slurm.conf", version, flags).get("DebugFlags") == "NO_CONF_HASH,Gres"
    types = [Setting("TopologyPlugin", "topology/tree"), Setting("TopologyPlugin", "topology/flat")]
    with pytest.raises(ValueError, match="TopologyPlugin is topology/tree and topology/flat"):
        assembled("slurm.conf", version, types)
    assert (
        assembled("slurm.conf", version, types[:1], defaults=types[1:]).get("TopologyPlugin")
        == "topology/tree"
    )


def test_no_password_in_any_file() -> None:
    for conf in CLUSTERS.values():
        for text in render(conf).values():
            assert "pass" not in text.lower()


def test_without_accounting_no_key_needs_the_database() -> None:
    # slurmctld 24.11.5: "fatal: slurmdbd is required to run with TRES gres/gpu."
    files = render(replace(LAPTOP, accounting_host=""))
    assert "slurmdbd.conf" not in files
    assert "AccountingStorage" not in files["slurm.conf"]


@pytest.mark.parametrize(
    ("version", "host", "shortened"),
    [
        (SlurmVersion(23, 11, 4), "", True),
        (SlurmVersion(23, 11, 4), "node0", False),
        (SlurmVersion(24, 11), "", False),
    ],
)
def test_waiting_jobs_start_soon_where_backfill_alone_starts_them(
    version: SlurmVersion, host: str, shortened: bool
) -> None:
    conf = replace(LAPTOP, version=version, accounting_host=host)
    assert (",bf_interval=5\n" in render(conf)["slurm.conf"]) is shortened
