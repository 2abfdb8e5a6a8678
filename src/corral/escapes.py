"""Escape sequences of terminals in texts of other programs: taken out in one place."""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(
    # Control sequences (colours, ECMA-48) and the beginning and end of hyperlinks (OSC 8).
    r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\]8;[^\x07\x1b]{0,300}(?:\x07|\x1b\\)"
)


def without_escapes(text: str) -> str:
    """The text as a terminal shows it, without colours and links."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text
