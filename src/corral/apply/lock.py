"""One writer per cluster on this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from corral.errors import Code, CorralError


@contextmanager
def cluster_lock(folder: Path) -> Generator[None]:
    """Hold the cluster's lock while changing it; the kernel frees it when the process dies.

    Raises:
        CorralError: BUSY, another process holds it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            raise CorralError(
                Code.BUSY,
                f"process {holder or '?'} changes this cluster now",
                hint="wait until it has ended, then run the same command again",
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
