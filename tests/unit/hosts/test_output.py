"""What a user has written goes through no link."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.api.exporting import write
from corral.api.reporting import write_page
from corral.errors import Code, CorralError
from corral.hosts.output import is_device, write_output


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
    with pytest.raises(CorralError, match="leads out of"):
        write({"sub/a": "x"}, tmp_path / "out", overwrite=True)
    (tmp_path / "out" / "b").symlink_to(tmp_path / "away" / "b")
    with pytest.raises(CorralError, match="is a link"):
        write({"b": "x"}, tmp_path / "out", overwrite=True)
    assert list((tmp_path / "away").iterdir()) == []
    write({"c/d": "x"}, tmp_path / "out", overwrite=False)
    assert (tmp_path / "out/c/d").read_text() == "x"
