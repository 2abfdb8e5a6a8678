"""Folders of root's on shared storage: what is planned, and what becomes of a squatter's."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.hosts.quote import join, sh
from corral.state.base import Context, Seen
from corral.state.storage.job_folders import CHECKS, STICKY, TAKEN, JobFolders
from tests.unit.state.shell import diff, probe, run

USERS = (("alice", 2001), ("bob", 2002))
THERE = "\n".join(
    ["w", "corral 0 755 directory"]
    + [f"corral/{kind} 0 755 directory" for kind in ("jobs", "envs", "data")]
    + [
        f"corral/{kind}/{name} {uid} 700 directory"
        for kind in ("jobs", "envs", "data")
        for name, uid in USERS
    ]
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users")


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder of root's that all users reach."""
    folder = Path(tempfile.mkdtemp(prefix="corral-held-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def refusal(path: Path, uid: int = 0) -> str:
    """What the guard reports about a path; "" where it lets jobs through."""
    script = join([CHECKS, sh("held {p} {u}", p=str(path), u=uid)])
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


def swapped(path: Path) -> bool:
    """Whether a user can put another folder in the place of the path, or of what is in it."""
    inside = sh(
        "cd {p} && mv corral away && mkdir corral && rmdir corral && mv away corral", p=path
    )
    top = sh(
        "cd {p}/.. && mv {n} away && mkdir {n} && rmdir {n} && mv away {n}", p=path, n=path.name
    )
    people = ((2003, 2003), (2004, 2003), (2004, 2004))
    return any(
        subprocess.run(
            ["sh", "-c", step],
            user=uid,
            group=gid,
            extra_groups=[],
            check=False,
            capture_output=True,
        ).returncode
        == 0
        for step in (inside, top)
        for uid, gid in people
    )


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o775, 0o777, 0o1777, 0o1775, 0o757, 0o2777, 0o700])
@pytest.mark.parametrize("owner", [0, 2003])
@pytest.mark.parametrize("where", ["top", "above", "link"])
def test_what_the_guard_lets_through_no_user_can_replace(
    ground: Path, mode: int, owner: int, where: str
) -> None:
    top = ground / "above" / "shared"
    (top / "corral").mkdir(parents=True)
    top.chmod(0o1777)
    part = {"top": top, "above": top.parent, "link": top}[where]
    path = top
    if where == "link":
        (ground / "way").mkdir()
        path = ground / "way" / "linked"
        path.symlink_to("../above/shared")
        part = path.parent
        os.chown(path, owner, owner, follow_symlinks=False)
    part.chmod(mode)
    os.chown(part, owner, 2003)
    reason = refusal(path)
    if not reason:
        assert not swapped(path)
        return
    assert str(part) in reason
    assert ("belongs to" in reason) == (owner != 0)
    # Only what a user could replace is refused; for a member of the group, too.
    assert owner == 2003 or swapped(path)
    assert (refusal(path, 2003) == "") == (
        owner == 2003 and not (mode & 0o022 and not mode & 0o1000)
    )


@needs_root
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
@pytest.mark.parametrize("owner", [0, 2003])
def test_up_closes_a_top_that_it_serves_and_reports_others(
    ground: Path, mode: int, owner: int
) -> None:
    top = ground / "shared"
    top.mkdir()
    top.chmod(mode)
    os.chown(top, owner, 2003)
    foreign = JobFolders(str(top), USERS, foreign=True)
    exposure = foreign.exposed(probe(foreign)[foreign.id])
    assert str(top) in exposure
    change = diff(foreign)
    assert change is not None
    run(change)
    assert top.stat().st_mode & 0o7777 == mode
    assert foreign.exposed(probe(foreign)[foreign.id]) == exposure
    assert diff(foreign) is None
    ours = JobFolders(str(top), USERS)
    change = diff(ours)
    assert change is not None
    assert change.summary == f"make {top} root's with the sticky bit"
    run(change)
    assert top.stat().st_mode & 0o7777 == mode | 0o1000
    assert diff(ours) is None
    # A folder that its owner alone may change keeps its owner, and that is reported.
    kept = owner == 2003 and mode == 0o775
    assert (top.stat().st_uid == 2003) == kept
    assert bool(ours.exposed(probe(ours)[ours.id])) == kept


def planned(text: str, folders: JobFolders | None = None) -> str | None:
    change = (folders or JobFolders("/s", USERS)).diff(Seen(0, text), Context("n"))
    return change and change.summary


def test_nothing_to_do_where_all_is_right() -> None:
    assert planned(THERE) is None
    assert (
        planned(f"{THERE}\nimages 0 1777 directory", JobFolders("/s", USERS, images=True)) is None
    )


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("corral 0 755 directory", "corral 2002 755 directory", "corral of uid 2002"),
        ("corral 0 755 directory", "corral 0 777 symbolic link", "corral of uid 0"),
        (
            "corral/envs 0 755 directory",
            "corral/envs 2002 700 directory",
            "corral/envs of uid 2002",
        ),
        ("alice 2001 700 directory", "alice 2002 700 directory", "alice of uid 2002"),
        ("alice 2001 700 directory", "alice 2001 777 regular file", "alice of uid 2001"),
    ],
)
def test_what_is_somebody_elses_is_set_aside_and_reported(
    right: str, wrong: str, words: str
) -> None:
    summary = planned(THERE.replace(right, wrong))
    assert summary is not None
    assert "set aside" in summary
    assert words in summary


def test_a_missing_folder_and_a_mode_are_made_right_without_setting_aside() -> None:
    for text in ("w", "", THERE.replace("corral 0 755", "corral 0 777")):
        summary = planned(text)
        assert summary == "make the folders of jobs in /s"


def test_storage_of_somebody_else_is_left_where_root_may_not_write() -> None:
    foreign = JobFolders("/s", USERS, foreign=True)
    assert planned("", foreign) is None
    assert planned("w", foreign) == "make the folders of jobs in /s"


@needs_root
@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_a_squatter_is_set_aside_with_what_is_theirs(hostile_tmp_path: Path, kind: str) -> None:
    top = hostile_tmp_path / "shared"
    top.mkdir()
    top.chmod(0o1777)
    outside = hostile_tmp_path / "outside"
    outside.mkdir(mode=0o755)
    squat = top / "corral"
    if kind == "folder":
        (squat / "jobs" / "alice").mkdir(parents=True)
        (squat / "trap").write_text("x")
    elif kind == "link":
        squat.symlink_to(outside)
    else:
        squat.write_text("x")
    os.chown(squat, 2003, 2003, follow_symlinks=False)
    folders = JobFolders(str(top), USERS, images=True)
    change = diff(folders)
    assert change is not None
    assert "set aside corral of uid 2003" in change.summary
    run(change)
    assert diff(folders) is None
    run(change)  # again after a crash
    assert diff(folders) is None
    assert [(top / "corral" / p).stat().st_uid for p in (".", "jobs", "jobs/bob")] == [0, 0, 2002]
    assert (top / "corral/jobs/alice").stat().st_mode & 0o777 == 0o700
    [aside] = [p for p in top.iterdir() if p.name.startswith("corral.of-2003.")]
    assert aside.lstat().st_uid == 2003
    assert list(outside.iterdir()) == []


@needs_root
def test_images_that_are_there_stay_and_are_opened_to_all(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.sqsh").write_text("x")
    for path in (tmp_path / "images", tmp_path / "images" / "a.sqsh"):
        os.chown(path, 2001, 2001)
    change = diff(JobFolders(str(tmp_path), USERS, images=True))
    assert change is not None
    run(change)
    assert (tmp_path / "images").stat().st_uid == 0
    assert (tmp_path / "images").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "images" / "a.sqsh").stat().st_uid == 2001


@needs_root
def test_a_link_in_the_place_of_images_opens_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    top = tmp_path / "shared"
    top.mkdir()
    (top / "images").symlink_to(outside)
    os.chown(top / "images", 2001, 2001, follow_symlinks=False)
    change = diff(JobFolders(str(top), (), images=True))
    assert change is not None
    run(change)
    assert outside.stat().st_mode & 0o777 == 0o700
    assert (top / "images").stat().st_mode & 0o7777 == 0o1777
    assert not (top / "images").is_symlink()


def test_what_the_doctor_reads_is_what_the_program_prints() -> None:
    assert f'no "$1 {TAKEN} $3' in CHECKS
    assert f"(mode $mode) {STICKY}: " in CHECKS
