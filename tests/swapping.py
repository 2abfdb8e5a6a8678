"""A process that exchanges two names as fast as it goes; there is no moment without one of them."""

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
one, other = (os.fsencode(word) for word in sys.argv[1:])
print("ready", flush=True)
while True:
    if libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, EXCHANGE):
        sys.exit(os.strerror(ctypes.get_errno()))
"""


@contextmanager
def swapping(first: Path, second: Path) -> Iterator[None]:
    """While it is entered, each of two names is now this and now the other thing."""
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
