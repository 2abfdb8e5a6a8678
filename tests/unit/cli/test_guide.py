"""Blocks of the guide that need no cluster, run as they are written."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from tests.guide_blocks import REPO, Block, not_printed, run_by

from .conftest import Run

LOGIN = "ssh: {user: root,"
BLOCKS = run_by(__file__)
KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43} x\n"


@pytest.fixture
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, also as home, with the files that the blocks name."""
    monkeypatch.setenv("HOME", str(home))
    (home / "laptop.yaml").unlink()
    lab = (REPO / "examples/lab-3x5090.yaml").read_text()
    assert LOGIN in lab
    (home / "lab.yaml").write_text(lab.replace(LOGIN, LOGIN.replace("root", "alice")))
    (home / ".ssh").mkdir()
    for name in ("id.pub", ".ssh/id_ed25519.pub"):
        (home / name).write_text(KEY)
    shutil.copy(REPO / "tests/recorded/nccl/a3-mega-all-gather.txt", home / "nccl.log")
    return home


def home_in(word: str) -> str:
    return str(Path(word).expanduser()) if word.startswith("~/") else word


def test_some_blocks_are_run_here() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_succeeds(block: Block, corral: Run, place: Path) -> None:
    lines = block.text.splitlines()
    assert lines
    printed = ""
    for line in lines:
        word, *words = (home_in(w) for w in shlex.split(line, comments=True))
        assert word == "corral", line
        ended = corral(*words)
        assert ended.exit_code == 0, f"{block}: {line}\n{ended.output}"
        printed += ended.output
    missing = not_printed(block.shown, printed)
    assert not missing, f"{block} does not print {missing}:\n{printed}"
