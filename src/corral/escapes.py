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


_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff"
    "\ud800-\udfff]"
)
"""What no document may hold (HTML, 13.2.3.5: control characters), and what turns the reading
direction of the text around it, so that a name would look like another one."""


def without_controls(text: str) -> str:
    """The text without escapes, and U+FFFD for whatever else is not to be shown.

    Line feeds, carriage returns and tabs stay.
    """
    return _CONTROLS.sub("\ufffd", without_escapes(text))
