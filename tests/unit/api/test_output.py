"""Output files and folders are never written through a link."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.api.config.adoption import Correction, write_corrections
from corral.api.config.export import write
from corral.api.evidence.report_pages import write_page
from corral.api.output import is_device, write_folder, write_output
from corral.api.workload.profile import keep_profile
from corral.errors import Code, CorralError
from corral.jobs.profile.recordings import Recordings
from tests.path_swap import swapping


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "bashrc"
    victim.write_text("mine")
    for name, target in (("link", victim), ("hop", tmp_path / "link"), ("new", tmp_path / "none")):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(CorralError) as caught:
            write_output(tmp_path / name, b"x")
        assert caught.value.code is Code.USAGE
    assert victim.read_text() == "mine"
    assert not (tmp_path / "none").exists()


def test_files_and_devices_are_written(tmp_path: Path) -> None:
    for data in (b"longer", b"short"):
        write_output(tmp_path / "a", data)
        assert (tmp_path / "a").read_bytes() == data
    with pytest.raises(FileExistsError):
        write_output(tmp_path / "a", b"x", new=True)
    write_output(Path("/dev/null"), b"x")
    write_page(Path("/dev/null"), "x")
    assert not Path("/dev/null").is_file()
    assert is_device(Path("/dev/stdout"))
    assert not is_device(Path("/dev/shm/x"))
    assert not is_device(Path("/dev/../etc/x"))


def test_an_export_stays_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "away")
    with pytest.raises(CorralError, match="is a link to"):
        write({"sub/a": "x"}, tmp_path / "out", overwrite=True)
    (tmp_path / "out" / "b").symlink_to(tmp_path / "away" / "b")
    with pytest.raises(CorralError, match="is a link"):
        write({"b": "x"}, tmp_path / "out", overwrite=True)
    assert list((tmp_path / "away").iterdir()) == []
    write({"c/d": "x"}, tmp_path / "out", overwrite=False)
    assert (tmp_path / "out/c/d").read_text() == "x"


def profile(folder: Path) -> object:
    return keep_profile(Recordings("12", "/f", (), {}, {"a": b"x"}, {}), folder)


def corrections(folder: Path) -> object:
    return write_corrections([Correction("/etc/slurm/a", None, b"x", 0o600)], folder)


WRITERS: dict[str, Callable[[Path], object]] = {
    "profile": profile,
    "export": lambda folder: write({"a": "x"}, folder, overwrite=True),
    "corrections": corrections,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_that_is_a_link_is_not_written_through(tmp_path: Path, writer: str) -> None:
    """A project brings a link under the name that Corral chooses for its output."""
    (tmp_path / "away").mkdir()
    (tmp_path / "profile-12").symlink_to("away")
    with pytest.raises(CorralError, match="is a link to") as caught:
        WRITERS[writer](tmp_path / "profile-12")
    assert caught.value.code is Code.USAGE
    assert list((tmp_path / "away").iterdir()) == []
    (tmp_path / "to" / "x").mkdir(parents=True)
    for inside in ("a", "summary.json"):
        (tmp_path / "to" / "x" / inside).symlink_to(tmp_path / "away" / inside)
    with pytest.raises(CorralError):
        WRITERS[writer](tmp_path / "to" / "x")
    assert list((tmp_path / "away").iterdir()) == []
    WRITERS[writer](tmp_path / "new" / "out")
    assert (tmp_path / "new/out/a").read_text() == "x"


@pytest.mark.parametrize("name", ["../a", "/a", "b/../../a", ""])
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="not a path below"):
        write_folder(tmp_path / "out", {name: b"x"})
    assert [p.name for p in tmp_path.rglob("*")] == ["out"]


def test_a_folder_that_is_swapped_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "link").symlink_to("away")
    (tmp_path / "out").mkdir()
    done, until = 0, time.monotonic() + 10
    with swapping(tmp_path / "out", tmp_path / "link"):
        while done < 30 and time.monotonic() < until:
            with contextlib.suppress(CorralError, OSError):
                write_folder(tmp_path / "out", {f"{n}": b"x" for n in range(20)})
                done += 1
    assert done > 0
    assert list((tmp_path / "away").iterdir()) == []
