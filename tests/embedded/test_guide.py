"""Blocks of the guide, run as they are written on a real cluster whose file is lab.yaml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.embedded.conftest import EXAMPLES
from tests.guide_blocks import Block, run_by

from corral.hosts.quote import sh
from corral.state_dir import VARIABLE, state_dir

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

BLOCKS = run_by(__file__)
LIMIT_S = 900
TRAIN = """\
import os
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}")
"""


@pytest.fixture
def place(cluster: Live, tmp_path: Path) -> Iterator[Path]:
    """A folder as a reader has it: lab.yaml, which is also cluster.yaml, train.py, the examples."""
    text = (EXAMPLES / "laptop.yaml").read_text()
    text = text.replace("name: laptop", f"name: {cluster.spec.name}")
    text += f"\nhealth: {{every: {cluster.spec.health.every}}}\n"
    for name in ("lab.yaml", "cluster.yaml"):
        (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    yield tmp_path
    cluster.run(cluster.controller, sh("scancel --quiet --state=PENDING --state=RUNNING; true"))


def test_some_blocks_are_run_here() -> None:
    assert len(BLOCKS) >= 8


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_succeeds(block: Block, cluster: Live, place: Path) -> None:
    """Where the text has the name lab for a cluster, the test's own cluster has its own name."""
    text = re.sub(r"(?<=[\w/] )lab(?= |$)", cluster.spec.name, block.text, flags=re.M)
    own = Path(sys.executable).parent
    places = {"HOME": str(place), VARIABLE: str(state_dir())}
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", text],
        cwd=place,
        env={**os.environ, "PATH": f"{own}:{os.environ['PATH']}", **places},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{block}:\n{text}\n{done.stdout}\n{done.stderr}"
    printed = [row.split() for row in (done.stdout + done.stderr).splitlines()]
    missing = [row for row in block.shown.splitlines() if row.split() not in printed]
    assert not missing, f"{block} does not print {missing}:\n{done.stdout}\n{done.stderr}"
