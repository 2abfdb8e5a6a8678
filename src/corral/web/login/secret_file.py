"""Files on the controller with a secret, which root alone may read."""

from __future__ import annotations

import os
import stat
from typing import Final

from corral.errors import Code, CorralError

_LONGEST: Final = 4096
_OTHERS: Final = 0o077
_JOURNAL: Final = "on the controller: journalctl -u 'corral-web-login@*'"


def secret_of(path: str, *, shortest: int = 1) -> str:
    """The first line of a file of root's.

    Args:
        path: the file.
        shortest: characters that it must have.

    Raises:
        CorralError: COMMAND_FAILED, others could read it, or there is no secret in it. The message
            names no file: it goes to browsers; the log of this program does.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise unusable(f"{path}: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        shape = os.fstat(handle)
        if shape.st_uid or not stat.S_ISREG(shape.st_mode) or shape.st_mode & _OTHERS:
            raise unusable(f"{path}: not a file that root alone can read: chmod 600, chown root")
        line = file.read(_LONGEST).split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    if len(line) < shortest:
        raise unusable(f"{path}: the first line has fewer than {shortest} characters")
    return line


def unusable(why: str) -> CorralError:
    """The error of a way to log in that lacks something on the controller; why is for its log."""
    return CorralError(
        Code.COMMAND_FAILED, "this way to log in is not set up right", tail=why, hint=_JOURNAL
    )
