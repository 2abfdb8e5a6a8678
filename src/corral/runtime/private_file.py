"""Small files of one user's state: readable by their owner alone, complete or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 in one rename, once its bytes are on disk.

    Args:
        path: the file; its folder is there.
        text: all of it, written as UTF-8.

    Raises:
        OSError: it is as it was before.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
