"""Every program that runs on nodes. Each names at its top where it is, who starts it and as whom.

They are read as text and sent or installed; nothing of Corral is on a node, so none of them imports
anything of Corral's, and Corral imports none of them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError

FOLDER: Final = Path(__file__).parent
"""Where they are in Corral's own package; ``benchmarks`` is uploaded with a job as it is."""
LABELS: Final = ("Installed as:", "Started by:", "Runs as:")
"""What the first lines of each program say."""


@cache
def program(name: str) -> str:
    """The text of one of these programs.

    Args:
        name: its path in this folder, such as ``health.sh`` or ``benchmarks/gpu.py``.

    Raises:
        CorralError: NOT_FOUND, there is no such program: Corral's own package is not complete.
    """
    path = FOLDER / name
    if not path.is_file():
        raise CorralError(
            Code.NOT_FOUND,
            f"the program {name} is not in Corral's package",
            hint="install Corral again",
        )
    return path.read_text("utf-8")
