"""A process that exchanges two paths as fast as it can; both exist at every moment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, EXCHANGE = -100, 2
first, second = (os.fsencode(word) for word in sys.argv[1:])
print("ready", flush=True)
while True:
    if libc.renameat2(AT_FDCWD, first, AT_FDCWD, second, EXCHANGE):
        sys.exit(os.strerror(ctypes.get_errno()))
"""


@contextmanager
def swapping(first: Path, second: Path) -> Iterator[None]:
    """In its context two paths keep exchanging what they name."""
    words = [sys.executable, "-c", _PROGRAM, str(first), str(second)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
