"""Files as a verb's input and output: ``-o``, ``-``, a pasted log."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError, cannot_read
from corral.spec.findings import near_file

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


LARGEST: Final = 1 << 28
"""Bytes of a log that are taken: the largest seen had some megabytes."""
_COMPRESSED: Final = ("\x1f\ufffd", "\ufffd7zXZ", "BZh", "(\ufffd/\ufffd")
"""How gzip, xz, bzip2 and zstd begin, where bytes that are not UTF-8 appear as U+FFFD."""
_START: Final = 1 << 16
_NO_TEXT: Final = 0.1
"""A share of odd characters that no text has; a crash leaves some zeros in one."""


def pasted(file: str, source: str) -> str:
    """The text of a log; ``-`` is standard input.

    Args:
        file: its name.
        source: where such text comes from, for the hint of a file that does not exist.

    Raises:
        CorralError: NOT_FOUND, it cannot be read; USAGE, it is larger than ``LARGEST`` (half a log
            would be judged as if it were complete), empty, compressed, or not text: nothing is
            found in such, which must not pass for a log in which nothing is wrong.
    """
    name = "standard input" if file == "-" else file
    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            cannot_read(file, error),
            hint=near_file(Path(file)) or source,
        ) from error
    if len(data) > LARGEST:
        raise _refused(f"{name} has more than {LARGEST >> 20} MiB", "give the piece that matters")
    text = _text(data)
    if not text.strip():
        raise _refused(f"{name} is empty: there is nothing to judge", "errors go there by 2>&1")
    if text.startswith(_COMPRESSED):
        raise _refused(f"{name} is compressed", "such as: zcat FILE | corral doctor --log -")
    begin = text[:_START]
    odd = sum(c == "\ufffd" or (c < " " and not c.isspace() and c != "\x1b") for c in begin)
    if odd > _NO_TEXT * len(begin):
        raise _refused(f"{name} is not text", "give what the program wrote")
    return text


def _text(data: bytes) -> str:
    """A log as text: UTF-8, or what PowerShell writes (UTF-16, with its mark)."""
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")


def _refused(what: str, hint: str) -> CorralError:
    return CorralError(Code.USAGE, what, hint=hint)
