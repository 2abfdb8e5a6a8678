"""pip out of a folder, where Python's pkgutil lacks what an old pip names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from corral.agents import program


def test_pip_runs_out_of_a_folder(tmp_path: Path) -> None:
    """As an argument of ``python3 -c``, like ``environment_make`` of user.sh gives it."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/__init__.py").write_text("")
    (tmp_path / "pip/__main__.py").write_text(
        "import pkgutil, sys\nprint(pkgutil.ImpImporter.__name__, sys.argv[1:], __name__)\n"
    )
    argv = [
        sys.executable,
        "-I",
        "-c",
        program("jobs/pip_folder.py"),
        str(tmp_path),
        "install",
        "x",
    ]
    ended = subprocess.run(argv, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("ImpImporter ['install', 'x'] __main__\n", "")
