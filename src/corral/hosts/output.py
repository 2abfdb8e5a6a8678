"""Files that a user has Corral write: through no link that somebody else may have put there."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError

_DEVICES: Final = Path("/dev")
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # everybody's to write, unlike the rest of /dev


def is_device(path: Path) -> bool:
    """Whether it is ``/dev/stdout`` and the like, which are links and written as they are."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100
    return whole.is_relative_to(_DEVICES) and not whole.is_relative_to(_MEMORY)


def write_output(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write a file; a link in its place is refused: a project decides where its links lead.

    Args:
        path: as the user named it.
        data: its content.
        new: it must not be there yet.

    Raises:
        CorralError: USAGE, it is a link.
        OSError: it cannot be written; FileExistsError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if new else os.O_TRUNC)
    flags |= 0 if is_device(path) else os.O_NOFOLLOW
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise CorralError(
            Code.USAGE,
            f"{path} is a link to {os.path.realpath(path)}: nothing was written",
            hint="name the file itself, or another one",
        ) from error
    with os.fdopen(handle, "wb") as file:
        file.write(data)
