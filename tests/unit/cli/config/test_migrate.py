"""``corral migrate``: the newest form of a cluster file's format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.spec.format import deprecations
from corral.spec.format.deprecations import Deprecation

from ..conftest import Run

OLD = Deprecation(field="partitions.min_nodes", since="0.2.0", why="a test", instead="max_nodes")


def test_a_file_of_today_stays_as_it_is(corral: Run, home: Path) -> None:
    before = (home / "laptop.yaml").read_bytes()
    ended = corral("migrate", "laptop.yaml", "--yes")
    assert (ended.exit_code, (home / "laptop.yaml").read_bytes()) == (0, before)
    assert "nothing to change" in ended.stdout


def test_old_keys_are_rewritten_after_a_question(
    corral: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deprecations, "deprecations", lambda: (OLD,))
    file = home / "laptop.yaml"
    text = file.read_text().replace("max_time: infinite", "min_nodes: 1")
    file.write_text(text)
    assert "deprecated-field" in corral("lint", "laptop.yaml").stdout
    refused = corral("migrate", "laptop.yaml")
    assert refused.exit_code != 0
    assert file.read_text() == text, "without an answer nothing is written"
    ended = corral("migrate", "laptop.yaml", "--json", "--yes")
    assert ended.exit_code == 0
    answer = json.loads(ended.stdout)
    assert answer["saved"] is True
    assert answer["changes"] == ["partitions[0].min_nodes: now max_nodes"]
    assert file.read_text() == text.replace("min_nodes", "max_nodes")


@pytest.mark.parametrize("text", ["corral: v2\nname: x\n", "corral: [\n"])
def test_a_file_with_errors_is_not_touched(corral: Run, home: Path, text: str) -> None:
    (home / "laptop.yaml").write_text(text)
    ended = corral("migrate", "laptop.yaml", "--yes")
    assert ended.exit_code == 2
    assert (home / "laptop.yaml").read_text() == text
