"""Folders of root's on shared storage: what is planned, and what becomes of a squatter's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.state.base import Context, Seen
from corral.state.job_folders import JobFolders
from tests.unit.state.shell import diff, run

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


def planned(text: str, folders: JobFolders | None = None) -> str | None:
    change = (folders or JobFolders("/s", USERS)).diff(Seen(0, text), Context("n"))
    return change and change.summary


def test_nothing_to_do_where_all_is_right() -> None:
    assert planned(THERE) is None
    assert (
        planned(f"{THERE}\nimages 0 1777 directory", JobFolders("/s", USERS, images=True)) is None
    )


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
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
def test_what_is_somebody_elses_is_set_aside_and_said(right: str, wrong: str, said: str) -> None:
    summary = planned(THERE.replace(right, wrong))
    assert summary is not None
    assert "set aside" in summary
    assert said in summary


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
