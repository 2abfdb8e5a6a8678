"""Runs agents/wind-down.sh with stand-ins for Slurm's commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

from corral.agents import program

REASON = "corral: the budget is spent"
_TOOLS = {
    "squeue": 'echo "squeue $*" >>{folder}/asked; cat {folder}/jobs',
    "scontrol": """case "$*" in
*'show nodes') cat {folder}/shown ;;
*) echo "$*" >>{folder}/done; ! grep -sqF "$2" {folder}/refused ;;
esac""",
}


def ran(folder: Path, *words: str) -> str:
    """What it prints.

    Args:
        folder: has ``jobs`` and ``shown``, what squeue and scontrol print; where a word of
            ``refused`` is the second of scontrol, that fails. ``done`` gets a line for
            each change.
        *words: of its command line.

    Raises:
        OSError: it failed.
    """
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    for name, text in _TOOLS.items():
        (bin_folder / name).write_text(f"#!/bin/sh\n{text.format(folder=folder)}\n")
        (bin_folder / name).chmod(0o755)
    ended = subprocess.run(
        ["/bin/sh", "-c", program("wind-down.sh"), "wind-down", *words],
        env={"PATH": f"{bin_folder}:/usr/bin:/bin", "CORRAL_WIND_DOWN_KEPT": f"{folder}/run/kept"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    if ended.returncode:
        raise OSError(f"exit status {ended.returncode}: {ended.stderr}")
    return ended.stdout
