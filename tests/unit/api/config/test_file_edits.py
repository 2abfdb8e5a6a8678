"""A changed cluster file is saved complete or not at all, and never over somebody else's change."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral import api
from corral.cli.main import app
from corral.errors import Code, CorralError

EXAMPLES = Path(__file__).parents[4] / "examples"


def run(*argv: str) -> int:
    return app(list(argv), standalone_mode=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "team.yaml"
    path.write_bytes((EXAMPLES / "queues.yaml").read_bytes())
    path.chmod(0o640)
    return path


def test_a_link_stays_one_and_the_mode_too(file: Path) -> None:
    link = file.with_name("cluster.yaml")
    link.symlink_to(file.name)
    change = api.edit_entry(link, "licenses", "matlab", {"count": "9"})
    assert change.diff().count("\n+") == 2  # the header's and the line's
    api.save_file(link, change.before.digest, change.text)
    assert link.is_symlink()
    assert "count: 9" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640
    assert {path.name for path in file.parent.iterdir()} == {"cluster.yaml", "team.yaml"}


def test_somebody_elses_change_is_kept(file: Path) -> None:
    change = api.edit_entry(file, "licenses", "matlab", {"count": "9"})
    file.write_text(file.read_text() + "# another\n")
    with pytest.raises(CorralError, match="was changed by somebody else meanwhile") as raised:
        api.save_file(file, change.before.digest, change.text)
    assert raised.value.code is Code.STALE_PLAN
    with pytest.raises(CorralError, match="somebody else"):
        api.edit_entry(file, "licenses", "matlab", {"count": "9"}, change.before.digest)
    assert file.read_text().endswith("# another\n")


def test_what_slurm_should_have_by_name() -> None:
    text = (EXAMPLES / "queues.yaml").read_text()
    text = text.replace("{name: physics}", "{name: physics, limits: {gpus: 4, memory_gib: 2}}")
    text += "qos:\n  - {name: high, max_time: '1:00:00', per_user: {jobs: 2}}\n"
    spec, _ = api.lint_text(text, "x")
    assert spec is not None
    limits = api.declared_limits(spec)
    assert limits["account physics"] == {"GrpTRES=gres/gpu": 4, "GrpTRES=mem": 2048}
    assert limits["user physics alice"] == {}
    assert limits["qos high"] == {"MaxWall": 3600, "MaxJobsPerUser": 2}
    assert api.holds_limits(spec)
    entries = api.entries_of(text)
    assert entries["accounts"]["physics"] == {"limits.gpus": "4", "limits.memory_gib": "2"}
    assert entries["reservations"]["upkeep"]["flags"] == "maint, ignore_jobs, weekly"


def test_the_verb(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("-c", str(file))
    before = file.read_text()
    assert run("edit", "users", "alice", "limits.gpus=x", "--yes", *where) == 2
    assert "must be an integer" in capsys.readouterr().out
    assert file.read_text() == before
    assert run("edit", "users", "alice", "limits.gpus=4", "--yes", *where) == 0
    assert "alice, uid: 2001, account: physics, limits: {gpus: 4}" in file.read_text()
    assert run("edit", "users", "alice", "limits.gpus=4", *where) == 0
    assert "nothing changes" in capsys.readouterr().out
    assert run("edit", "users", "alice", *where) == 2
    assert run("edit", "groups", "gpu", "nodes=x", "--yes", *where) == 2
    assert run("edit", "users", "alice", "limits.gpus=", "--yes", *where) == 0
    assert file.read_text() == before
