"""The benchmark of bare machines, with one machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_one_machine_from_bare_to_proven() -> None:
    argv = [sys.executable, "-m", "benchmarks.bare_metal", "--machines", "1"]
    repo = Path(__file__).parents[2]
    done = subprocess.run(argv, cwd=repo, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert "plan, nothing to do" in done.stdout
