"""The only maker of shell text. A Script is POSIX sh; every value in it went through quoting.

``sh("install -d -m {mode} {path}", mode="0755", path=path)`` quotes each value with
``shlex.quote``; a value that is a Script goes in as it is. Templates must be literals (pyright's
LiteralString), so that no text from a cluster file can ever become shell text.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import LiteralString, cast


class Script(str):
    """POSIX shell text that is safe to run. Made by ``sh`` and ``join`` only."""

    __slots__ = ()


def sh(template: LiteralString, /, **values: object) -> Script:
    """Fill ``{name}`` fields of a literal template with quoted values.

    Args:
        template: literal shell text; ``{{`` and ``}}`` stand for braces.
        **values: str, int, float (quoted), Script (as it is), or a list/tuple (each quoted,
            joined by spaces).

    Raises:
        KeyError: a field has no value.
        ValueError: a value holds a NUL byte, which no shell argument can.
    """
    return Script(template.format(**{k: _quoted(v) for k, v in values.items()}))


def join(scripts: Iterable[Script], separator: LiteralString = "\n") -> Script:
    """Put scripts one after the other, a newline between them by default."""
    return Script(separator.join(scripts))


def _quoted(value: object) -> str:
    if isinstance(value, Script):
        return str(value)
    if isinstance(value, (list, tuple)):
        return " ".join(_quoted(part) for part in cast("Sequence[object]", value))
    text = str(value)
    if "\0" in text:
        raise ValueError("shell text cannot hold a NUL byte")
    return shlex.quote(text)
