"""What ``-o`` names: a file, ``-`` for standard output, or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError

STDOUT: Final = "-"
"""As a file to write: standard output, as everywhere on the command line."""


def folder_of(text: str, option: str = "--output") -> Path:
    """The folder that an option names.

    Raises:
        CorralError: USAGE, it is ``-``: several files cannot go to standard output.
    """
    if text == STDOUT:
        raise CorralError(
            Code.USAGE,
            f"{option} - is standard output, and this writes several files",
            hint=f"name a folder: {option} DIR; one that is called - is ./-",
        )
    return Path(text)
