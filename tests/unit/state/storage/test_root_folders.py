"""A folder that is root's alone: made in shared places, and never taken over from a user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.state.base import Change, Context
from corral.state.storage.root_folders import RootFolder
from tests.unit.state.shell import diff, probe, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users")
ALICE = 2001


@pytest.fixture
def shared() -> Iterator[Path]:
    """Storage that everybody may write to at its top."""
    folder = Path(tempfile.mkdtemp(prefix="corral-shared-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def planned(folder: Path) -> Change:
    change = diff(RootFolder(str(folder)))
    assert change is not None
    return change


def refusal(folder: Path) -> str:
    """What the failed change prints; the plan has it too where the folder is there."""
    change = planned(folder)
    done = subprocess.run(
        ["/bin/sh", "-c", change.script], check=False, capture_output=True, text=True
    )
    assert done.returncode
    (sentence,) = done.stderr.splitlines()
    assert change.summary.endswith(f"; {sentence}") == folder.exists()
    return sentence


def test_every_part_that_is_missing_becomes_roots(shared: Path) -> None:
    shared.chmod(0o3777)  # folders in it get its group and its bit
    os.chown(shared, 0, 100)
    folder = shared / "archive" / "lab"
    run(planned(folder))
    for path, mode in ((folder.parent, 0o755), (folder, 0o700)):
        status = path.stat()
        assert (status.st_uid, status.st_mode & 0o777) == (0, mode)
    assert diff(RootFolder(str(folder))) is None


def test_one_that_root_made_stays_with_what_is_in_it(shared: Path) -> None:
    folder = shared / "lab"
    folder.mkdir(mode=0o755)
    (folder / "file").write_text("kept")
    run(planned(folder))
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert (folder / "file").read_text() == "kept"


@pytest.mark.parametrize("below", ["", "lab"])
def test_what_a_user_made_before_is_not_given_to_root(shared: Path, below: str) -> None:
    users = shared / "archive"
    users.mkdir()
    (users / "planted").write_text("an archive")
    os.chown(users, ALICE, ALICE)
    assert f"{users} belongs to " in refusal(users / below)
    assert users.stat().st_uid == ALICE
    assert [path.name for path in users.iterdir()] == ["planted"]


@pytest.mark.parametrize("below", ["", "lab"])
def test_a_link_is_not_followed(shared: Path, below: str) -> None:
    other = shared / "other"
    (other / "lab").mkdir(parents=True)
    link = shared / "archive"
    link.symlink_to(other)
    os.chown(link, ALICE, ALICE, follow_symlinks=False)
    assert f"{link} is a symbolic link" in refusal(link / below)
    assert other.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_others_may_write_to(shared: Path) -> None:
    folder = shared / "lab"
    folder.mkdir()
    folder.chmod(0o775)
    assert "others may write to it" in refusal(folder)


def test_a_top_that_is_a_users_or_open_without_the_sticky_bit(shared: Path) -> None:
    folder = shared / "lab"
    shared.chmod(0o777)
    change = planned(folder)
    assert probe(RootFolder(str(folder)))[change.resource].text == "absent"
    done = subprocess.run(["/bin/sh", "-c", change.script], check=False, capture_output=True)
    assert done.returncode
    assert b"without the sticky bit" in done.stderr
    assert not folder.exists()
    folder.mkdir(mode=0o700)
    assert "without the sticky bit" in refusal(folder)
    shared.chmod(0o1777)
    os.chown(shared, ALICE, ALICE)
    assert f"{shared} belongs to " in refusal(folder)


def test_the_probe_is_stable_and_changes_nothing(shared: Path) -> None:
    resource = RootFolder(str(shared / "a" / "b"))
    assert probe(resource) == probe(resource)
    assert list(shared.iterdir()) == []
    change = resource.diff(probe(resource)[resource.id], Context("here"))
    assert change is not None
    assert change.before == ""
