"""Root copies folders between nodes, but none that a user can replace with a link."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api.mesh.data_sync import guarded

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users")


@pytest.fixture
def ground() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="corral-sync-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def refusal(folder: Path, *, make: bool = False) -> str:
    script = str(guarded(str(folder), make=make))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    ("above", "owner", "mode", "reason"),
    [
        (0o755, 0, 0o755, ""),
        (0o755, 2003, 0o700, ""),
        (0o755, 2003, 0o777, ""),
        (0o1777, 0, 0o755, ""),
        (0o1777, 0, 0o777, "without the sticky bit"),
        (0o1777, 2003, 0o755, "belongs to"),
        (0o777, 0, 0o755, "without the sticky bit"),
    ],
)
def test_a_folder_that_is_there(
    ground: Path, above: int, owner: int, mode: int, reason: str
) -> None:
    folder = ground / "data" / "a b`id`$x"
    folder.mkdir(parents=True)
    folder.parent.chmod(above)
    folder.chmod(mode)
    os.chown(folder, owner, owner)
    refused = refusal(folder)
    assert reason in refused
    assert bool(refused) == bool(reason)
    assert refusal(folder, make=True) == refused


def test_a_link_of_a_users_is_not_followed(ground: Path) -> None:
    (ground / "secret").mkdir()
    data = ground / "data"
    data.mkdir()
    data.chmod(0o1777)
    (data / "imgs").symlink_to("../secret")
    assert refusal(data / "imgs") == ""
    os.chown(data / "imgs", 2003, 2003, follow_symlinks=False)
    for path in (data / "imgs", data / "imgs" / "more"):
        assert "belongs to" in refusal(path, make=True)
    assert list((ground / "secret").iterdir()) == []


def test_what_is_missing_is_made_as_roots_where_nobody_can_come_first(ground: Path) -> None:
    data = ground / "data"
    data.mkdir()
    data.chmod(0o1777)
    assert refusal(data / "a" / "b", make=True) == ""
    assert (data / "a" / "b").stat().st_uid == 0
    data.chmod(0o777)
    assert "without the sticky bit" in refusal(data / "c", make=True)
    assert not (data / "c").exists()
