"""A small file of state: its mode, and what a write that fails leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.runtime.private_file import write_private


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_text("before")
    file.chmod(0o644)
    write_private(file, "é\n")
    assert file.read_bytes() == "é\n".encode()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept.json"
    write_private(file, "before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(file, "after")
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]
