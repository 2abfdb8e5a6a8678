"""Checkpoints: complete or absent, checked, the last N; a process killed while it writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral import checkpoint
from corral.checkpoint import AGAIN, Checkpoints
from corral.jobs.batch import script


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without PyTorch, as rank 0, and with this process's own handler restored."""
    monkeypatch.setattr(checkpoint, "_torch", lambda: None)
    monkeypatch.delenv("RANK", raising=False)
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_the_newest_comes_back_and_the_last_n_are_kept(tmp_path: Path) -> None:
    saved = Checkpoints(tmp_path / "c", keep=2)
    assert saved.load() is None
    for number in (1, 2, 10):
        saved.save(number, {"step": number})
    newest = saved.load()
    assert newest is not None
    assert (newest.number, newest.state) == (10, {"step": 10})
    assert saved.numbers() == [10, 2]
    assert names(tmp_path / "c") == [
        "000000000002.ckpt",
        "000000000002.sha256",
        "000000000010.ckpt",
        "000000000010.sha256",
    ]


def test_sha256sum_can_check_them(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(3, [1])
    subprocess.run(["sha256sum", "-c", "000000000003.sha256"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "no-sum"])
def test_a_damaged_one_is_passed_over(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = Checkpoints(tmp_path)
    saved.save(1, "good")
    saved.save(2, "bad")
    file = tmp_path / "000000000002.ckpt"
    data = file.read_bytes()
    match damage:
        case "flip":
            file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        case "cut":
            file.write_bytes(data[:-1])
        case "gone":
            file.unlink()
        case _:
            file.with_suffix(".sha256").unlink()
    newest = saved.load()
    assert newest is not None
    assert newest.state == "good"
    assert ("000000000002.ckpt" in capsys.readouterr().err) is (damage != "no-sum")
    saved.save(2, "again")
    again = saved.load()
    assert again is not None
    assert again.state == "again"


def test_none_that_is_complete_is_an_error(tmp_path: Path) -> None:
    saved = Checkpoints(tmp_path)
    saved.save(1, "x")
    (tmp_path / "000000000001.ckpt").write_bytes(b"")
    with pytest.raises(RuntimeError, match="is damaged"):
        saved.load()


def test_what_cannot_be_written_leaves_the_others(tmp_path: Path) -> None:
    saved = Checkpoints(tmp_path)
    saved.save(1, "x")
    with pytest.raises((AttributeError, TypeError)):
        saved.save(2, lambda: 0)
    newest = saved.load()
    assert newest is not None
    assert newest.number == 1
    saved.save(3, "y")
    assert not [name for name in names(tmp_path) if "part" in name]


def test_only_rank_0_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    Checkpoints(tmp_path / "c").save(1, "x")
    assert not (tmp_path / "c").exists()


def test_the_folder_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_CHECKPOINTS", str(tmp_path / "job"))
    assert Checkpoints().folder == tmp_path / "job"
    with pytest.raises(ValueError, match="keep"):
        Checkpoints(keep=0)


def test_foreign_files_stay(tmp_path: Path) -> None:
    (tmp_path / "best.ckpt").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    saved = Checkpoints(tmp_path, keep=1)
    for number in range(3):
        saved.save(number, number)
    assert {"best.ckpt", "notes.txt"} <= set(names(tmp_path))


WRITER = """\
import sys
from corral.checkpoint import Checkpoints
saved = Checkpoints(sys.argv[1], keep=2)
print("ready", flush=True)
number = 0
while True:
    number += 1
    saved.save(number, bytes([number % 251]) * 2_000_000)
    print(number, flush=True)
"""


def test_killed_while_it_writes(tmp_path: Path) -> None:
    """What is loaded after a kill at any moment is complete and no older than what was finished."""
    for after in (1, 2, 3):
        folder = tmp_path / str(after)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                if line.strip() == str(after):
                    os.kill(writer.pid, signal.SIGKILL)
                    break
        newest = Checkpoints(folder).load()
        assert newest is not None
        assert newest.number >= after
        assert newest.state == bytes([newest.number % 251]) * 2_000_000


LEAVER = """\
import os, signal, sys
from corral.checkpoint import Checkpoints
saved = Checkpoints(sys.argv[1])
assert not saved.leaving()
os.kill(os.getpid(), signal.SIGUSR1)
assert saved.leaving()
saved.save(1, "x")
saved.leave()
"""


def test_leaving_asks_to_be_started_again(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", LEAVER, str(tmp_path)], check=False)
    assert ran.returncode == AGAIN == script.AGAIN
    assert names(tmp_path) == ["000000000001.ckpt", "000000000001.sha256"]


def test_it_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    """As it is sent with a job: its own file in a package of that name, and -I for the rest."""
    package = tmp_path / "corral"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "checkpoint.py").write_bytes(Path(checkpoint.__file__).read_bytes())
    text = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "sys.modules['torch'] = None\nimport importlib.util\n"
        "importlib.util.find_spec = lambda name: None\n"
        "import corral.checkpoint as c\nc.find_spec = lambda name: None\n"
        f"s = c.Checkpoints({str(tmp_path / 'c')!r}); s.save(1, [2]); print(s.load().state)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text], capture_output=True, text=True, check=False
    )
    assert ran.stdout == "[2]\n", ran.stderr
