"""Lines of several ranks in one log, by the program that a job gets along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral import agents

LINES = agents.FOLDER / "jobs/lines.py"
SCRIPT = """\
import os, sys
from helper import word
print("rank", 1, word, *sys.argv[1:])
print("bar", end="\\r", flush=True)
print("no end", end="")
print(__name__, os.path.basename(__file__), file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text('word = "helper"\n')
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    return file


def writes(*words: str | Path) -> tuple[int, list[bytes]]:
    """How it ended, and what each of its write(2) held: a pipe of packets keeps them apart."""
    out, into = os.pipe2(os.O_DIRECT)
    try:
        ended = subprocess.run(
            [sys.executable, "-u", *words], stdout=into, stderr=into, check=False, timeout=60
        )
    finally:
        os.close(into)
    with os.fdopen(out, "rb", buffering=0) as packets:
        return ended.returncode, list(iter(lambda: packets.read(4096), b""))


def test_a_line_is_one_write(script: Path) -> None:
    status, chunks = writes(str(LINES), script, "--lr", "1")
    assert chunks == [b"rank 1 helper --lr 1\n", b"bar\r", b"__main__ train.py\n", b"no end"]
    assert status == 7


def test_without_it_a_line_is_many(script: Path) -> None:
    _, chunks = writes(script)
    assert b"rank" in chunks, "else nobody needs lines.py any more"
