"""A folder that Corral shares with others: probe, diff, apply, probe, for real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.state.files import Parts
from tests.unit.state.shell import diff, probe, run

OWN = "#!/bin/sh\n# Written by Corral. It does nothing.\nexit 0\n"
OLD = "#!/bin/sh\n# Written by Corral. An older one.\nexit 1\n"
THEIRS = "#!/bin/sh\n# Mine.\nexit 0\n"


@pytest.fixture
def folder(hostile_tmp_path: Path) -> Path:
    return hostile_tmp_path / "prolog.d"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="chown root:root needs root")
def test_own_files_come_and_go_and_others_stay(folder: Path) -> None:
    write(folder / "10-site", THEIRS)
    write(folder / "40-gone", OLD)
    write(folder / "50-mine", OLD)
    write(folder / "60-taken", THEIRS)
    parts = Parts(str(folder), (("50-mine", OWN), ("60-taken", OWN), ("70-new", OWN)))
    change = diff(parts)
    assert change is not None
    for action in ("write 50-mine", "write 60-taken", "write 70-new", "remove 40-gone"):
        assert action in change.summary
    assert f"file:{folder}/60-taken" in change.keeps
    assert "10-site" not in change.summary
    run(change)
    assert {p.name: p.read_text() for p in folder.iterdir()} == {
        "10-site": THEIRS,
        **dict.fromkeys(("50-mine", "60-taken", "70-new"), OWN),
    }
    assert diff(parts) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="chown root:root needs root")
def test_a_mode_that_keeps_it_from_running_is_put_right(folder: Path) -> None:
    parts = Parts(str(folder), (("50-mine", OWN),))
    run(diff(parts) or pytest.fail("nothing to do"))
    (folder / "50-mine").chmod(0o644)
    change = diff(parts)
    assert change is not None
    run(change)
    assert (folder / "50-mine").stat().st_mode & 0o777 == 0o755


def test_a_folder_that_is_not_there_is_empty(folder: Path) -> None:
    assert probe(Parts(str(folder), ())).popitem()[1].text == ""
    assert diff(Parts(str(folder), ())) is None


def test_a_text_must_name_its_owner() -> None:
    with pytest.raises(ValueError, match="50-x"):
        Parts("/etc/slurm/prolog.d", (("50-x", THEIRS),))
