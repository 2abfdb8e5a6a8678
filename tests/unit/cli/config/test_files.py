"""lint, init, and bad files everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from corral import api
from corral.cli.config.lint import rendered
from tests.provider_list import unlisted
from tests.unit.cli.conftest import CHANGES, Fake, Run, stdout_json

Golden = Callable[[str, str], None]


# lint, init


def test_lint_of_a_good_file(corral: Run) -> None:
    result = corral("lint", "laptop.yaml")
    assert (result.exit_code, result.stdout) == (0, "1 file: nothing is wrong\n")


BAD = """\
corral: v1
name: "bad name"
groups:
  - name: cpu
    provider: embeded
    nodes: node[0-2]
"""


def test_lint_reports_everything_at_once(corral: Run, home: Path, golden: Golden) -> None:
    (home / "bad.yaml").write_text(BAD)
    result = corral("lint", "bad.yaml", "laptop.yaml", "none.yaml")
    assert result.exit_code == 2
    golden("cli/lint.txt", unlisted(result.stdout))


def test_lint_as_json(corral: Run, home: Path) -> None:
    (home / "bad.yaml").write_text(BAD)
    data = stdout_json(corral("lint", "bad.yaml", "--json"))
    assert data["good"] is False
    assert {finding["line"] for finding in data["findings"]} >= {2, 5}


def test_lint_on_a_terminal_shows_the_place(home: Path, golden: Golden) -> None:
    (home / "bad.yaml").write_text(BAD)
    lines = [x for f in api.lint(Path("bad.yaml")) for x in rendered(f, excerpt=True)]
    golden("cli/lint-terminal.txt", unlisted("".join(f"{line.plain}\n" for line in lines)))


def test_a_bad_file_stops_every_verb_before_anything_is_done(
    corral: Run, fake: Fake, home: Path, golden: Golden
) -> None:
    (home / "bad.yaml").write_text(BAD)
    for verb in ("plan", "up", "apply"):
        fake.answer(verb, CHANGES)
        result = corral(verb, "bad.yaml")
        assert result.exit_code == 2
        assert not fake.calls[verb]
    golden("cli/bad-file.txt", unlisted(result.stderr))
    data = stdout_json(corral("plan", "bad.yaml", "--json"))
    assert len(data["error"]["findings"]) == 2


@pytest.mark.parametrize("kind", ["laptop", "lab"])
def test_init_writes_a_good_file(kind: str, corral: Run, home: Path) -> None:
    assert corral("init", kind, "--name", "mine", "-o", "mine.yaml").exit_code == 0
    assert corral("lint", "mine.yaml").exit_code == 0
    assert api.load(Path("mine.yaml")).name == "mine"
    assert corral("init", "--kind", kind).stdout.startswith("# A cluster")


def test_init_never_overwrites(corral: Run, home: Path) -> None:
    before = (home / "laptop.yaml").read_text()
    result = corral("init", "-o", "laptop.yaml")
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert (home / "laptop.yaml").read_text() == before
    assert corral("init", "-o", "laptop.yaml", "--force").exit_code == 0


def test_init_takes_values_and_refuses_bad_ones(corral: Run) -> None:
    result = corral(
        "init",
        "lab",
        "--set",
        "gpu_count=4",
        "--set",
        "nodes=gpu[1-2]",
        "--set",
        "addresses=10.0.0.[1-2]",
    )
    assert result.exit_code == 0
    assert "count: 4" in result.stdout
    for bad in ("gpu_count", "colour=red", "gpu_count=-1", "nodes=$(id)"):
        assert corral("init", "lab", "--set", bad).exit_code == 2
    assert corral("init", "--name", "Bad Name").exit_code == 2
    assert corral("init", "castle").exit_code == 2


def test_schema_is_a_json_schema(corral: Run) -> None:
    schema = json.loads(corral("init", "--schema").stdout)
    assert schema["properties"]["groups"]
    assert stdout_json(corral("init", "--schema", "--json"))["schema"] == schema
