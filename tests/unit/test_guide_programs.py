"""Programs and files of settings of the guide that need no cluster, run or read as written."""

from __future__ import annotations

import configparser
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corral.shards import planned, samples_of, write
from tests.guide_blocks import REPO, Block, not_printed, run_by

PROGRAMS = run_by(__file__, "python")
SETTINGS = run_by(__file__, "ini")
STAND_INS = """\
class Model:
    def state_dict(self):
        return {"weight": 1}

    def load_state_dict(self, state):
        print("continues with", state)


def train_one(epoch):
    print("epoch", epoch)


def DistributedSampler(data):
    return range(len(data))


def DataLoader(data, sampler, num_workers):
    return [data[number] for number in sampler]


model, epochs, loss, step = Model(), 2, 0.5, 1
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data set of 18 images of two classes in ``data``, and a folder of the node's own disk."""
    for kind in ("cat", "dog"):
        (tmp_path / "files" / kind).mkdir(parents=True)
        for i in range(9):
            image = random.Random(i).randbytes(997)
            (tmp_path / "files" / kind / f"{i}.png").write_bytes(image)
    plans = planned(samples_of(tmp_path / "files", labels=True), "images", size=4_000)
    write(plans, tmp_path / "data", "images")
    (tmp_path / "cache").mkdir()
    return tmp_path


def ran(block: Block, place: Path) -> str:
    text = block.text.replace("/shared/corral/data/alice/images", f"{place}/data")
    program = f"{STAND_INS}\n{text.replace('/local/cache', f'{place}/cache')}"
    known = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{REPO}/src"}
    known["CORRAL_CHECKPOINTS"] = f"{place}/checkpoints"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=place, env=known, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{block}:\n{done.stderr}"
    return done.stdout + done.stderr


def test_some_are_run_here() -> None:
    assert len(PROGRAMS) >= 4
    assert len(SETTINGS) >= 1


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_succeeds(block: Block, place: Path) -> None:
    printed = ran(block, place)
    missing = not_printed(block.shown, printed)
    assert not missing, f"{block} does not print {missing}:\n{printed}"


def test_the_program_with_checkpoints_continues(place: Path) -> None:
    (block,) = (b for b in PROGRAMS if "Checkpoints(" in b.text)
    assert "epoch 0\nepoch 1\n" in ran(block, place)
    assert "continues with {'weight': 1}" in ran(block, place)


def complaints(text: str, folder: Path) -> str:
    """What systemd has against a unit; its program is not on this machine."""
    unit = folder / "corral-elastic.service"
    unit.write_text(text.replace("/usr/local/bin/corral", "/bin/true"))
    words = ["systemd-analyze", "verify", str(unit)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stderr


@pytest.mark.parametrize("block", SETTINGS, ids=str)
def test_settings_are_read(block: Block, tmp_path: Path) -> None:
    parsed = configparser.ConfigParser()
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(block.text)
    assert parsed["Service"]["ExecStart"].startswith("/usr/local/bin/corral elastic -c ")
    if shutil.which("systemd-analyze"):
        assert complaints(block.text, tmp_path) == ""
        assert "specifier" in complaints(block.text.replace("=always", "=sometimes"), tmp_path)
