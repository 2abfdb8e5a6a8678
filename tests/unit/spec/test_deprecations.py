"""Fields that go with the next version of the format: a warning first, then a new key."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from corral.spec import schema
from corral.spec.findings import Level
from corral.spec.format import deprecations
from corral.spec.format.deprecations import Deprecation, migrated
from corral.spec.load import READ_RULES, load_text

ROWS = (
    Deprecation(field="partitions.min_nodes", since="0.2.0", why="a test", instead="max_nodes"),
    Deprecation(field="groups.features", since="0.2.0", why="a test", by_hand="write labels"),
)
FILE = """\
corral: v1
name: lab
groups:
  - {name: rtx, provider: ssh, nodes: node0, addresses: 10.0.0.1, features: [a]}
partitions:
  # mine
  - name: main
    groups: [rtx]
    default: true
    "min_nodes": 1   # and this
  - {name: two, groups: [rtx], min_nodes: 1, max_nodes: 1}
"""


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecations, "deprecations", lambda: ROWS)


def test_a_field_that_goes_is_a_warning_at_its_key(rows: None) -> None:
    loaded = load_text(FILE, "lab.yaml")
    going = [f for f in loaded.findings if f.rule == deprecations.RULE]
    assert [(f.line, f.column, f.level) for f in going] == [
        (4, 67, Level.WARNING),
        (10, 5, Level.WARNING),
        (11, 32, Level.WARNING),
    ]
    assert READ_RULES[deprecations.RULE][0] is Level.WARNING
    assert loaded.spec is not None, "the file is good in the release that warns"
    assert "write labels" in going[0].hint
    assert "write max_nodes, or: corral migrate FILE" in going[1].hint
    assert "max_nodes is there as well" in going[2].hint


def test_the_new_key_is_written_and_all_else_stays(rows: None) -> None:
    made = migrated(FILE)
    assert made.text == FILE.replace('"min_nodes": 1   # and', "max_nodes: 1   # and")
    assert made.changes == ("partitions[0].min_nodes: now max_nodes",)
    assert made.left == (
        "groups[0].features: write labels",
        "partitions[1].min_nodes: take it out: max_nodes is there as well",
    )
    again = migrated(made.text)
    assert (again.text, again.changes) == (made.text, ())


def test_an_aliased_mapping_is_changed_once(rows: None) -> None:
    text = "partitions:\n  - &p {name: a, min_nodes: 1}\n  - *p\n"
    assert migrated(text).text == text.replace("min_nodes", "max_nodes")


def test_what_is_not_yaml_stays(rows: None) -> None:
    assert migrated("partitions: [\n").text == "partitions: [\n"


def test_rows_name_fields_and_are_announced_before_they_go() -> None:
    """Each row is of a release that exists, and of fields that the model still has."""
    paths = {field.path.replace("[]", "") for field in schema.walk()}
    assert "partitions.min_nodes" in paths
    for row in deprecations.deprecations():
        assert row.field in paths
        assert Version(row.since) <= Version(version("corral"))
        assert bool(row.instead) is not bool(row.by_hand)
        if row.instead:
            assert f"{row.field.rpartition('.')[0]}.{row.instead}".strip(".") in paths


def test_a_file_of_today_has_none(repo: Path) -> None:
    for file in (repo / "examples").glob("*.yaml"):
        assert migrated(file.read_text()).changes == ()
