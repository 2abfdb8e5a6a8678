"""Which slow tests a run takes: one of several parts.

``CORRAL_TEST_SLOW=N/5 ./test`` takes the Nth part; without the variable no slow test runs.
A test stays in its part when others come and go: so each has run after five parts.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection
from typing import Final

SALT: Final = "14626"
"""Of 20,000 the one with which the parts take about the same CPU time, by samples of the dear files
and estimates of the others. Another one moves tests into other parts: some would wait for nine
runs."""
TOGETHER: Final = 16
"""Slow tests of one file that stay together: they share what their fixtures make. Of a file with
more each goes its own way."""


def part(ids: Collection[str], number: int, parts: int) -> set[str]:
    """Node ids of one part.

    Args:
        ids: all slow tests of a run, as ``tests/embedded/test_x.py::test_y[z]``.
        number: from 1 to ``parts``.
        parts: how many there are.
    """
    in_file = Counter(test.partition("::")[0] for test in ids)
    chosen: set[str] = set()
    for test in ids:
        file = test.partition("::")[0]
        key = file if in_file[file] <= TOGETHER else test
        if zlib.crc32(f"{SALT}{key}".encode()) % parts == number - 1:
            chosen.add(test)
    return chosen
