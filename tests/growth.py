"""Whether work grows with its size and not with its square, in a ratio of two times of one run.

A limit in seconds measures the machine: a busy one fails it (seen in CI), a fast one fails none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

TIMES: Final = 4
"""How much larger the large size is: linear work takes 4 times as long, quadratic 16 times."""
AT_MOST: Final = 12
TURNS: Final = 5
TOO_SHORT_S: Final = 0.002
"""CPU seconds below which a ratio measures the clock, not the work."""


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process for one turn of the work."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def growth(small: Callable[[], object], large: Callable[[], object]) -> float:
    """How many times longer ``large`` takes than ``small``: the least of some turns.

    What disturbs a machine only slows it down, so that one turn below the limit is enough, and work
    that is quadratic stays above it in all turns.
    """
    least_small = min(seconds(small) for _ in range(2))
    ratio = 0.0
    for turn in range(TURNS):
        took = seconds(large)
        now = took / max(least_small, TOO_SHORT_S)
        ratio = now if turn == 0 else min(ratio, now)
        if ratio < AT_MOST:
            break
    return ratio
