"""A log that somebody gives a verb: a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError

LARGEST: Final = 1 << 28
"""Characters of a log that are taken: the largest seen had some megabytes."""


def pasted(file: str) -> str:
    """The text of a log; ``-`` is standard input.

    Raises:
        CorralError: NOT_FOUND, it cannot be read; USAGE, it is larger than ``LARGEST``: half a log
            would be judged as if it were whole.
    """
    try:
        if file == "-":
            text = sys.stdin.read(LARGEST + 1)
        else:
            with Path(file).open(encoding="utf-8", errors="replace") as stream:
                text = stream.read(LARGEST + 1)
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, f"{file} cannot be read: {error.strerror}", hint="check the path"
        ) from error
    if len(text) > LARGEST:
        raise CorralError(
            Code.USAGE,
            f"{file} has more than {LARGEST >> 20} Mi characters",
            hint="give the piece of it that matters",
        )
    return text
