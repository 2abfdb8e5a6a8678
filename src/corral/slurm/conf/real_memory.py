"""RealMemory of slurm.conf's nodes: what a machine reports, less a margin. Pure."""

from __future__ import annotations

from typing import Final

# RealMemory is what jobs may use. A node that later reports less than configured becomes INVAL
# (F07), and a kernel update alone can reserve some more MiB: leave 3 % (2 to 5 % is the practice).
MEMORY_PERCENT: Final = 97
LEAST_GRAIN: Final = 16


def real_memory(reported: int) -> int:
    """RealMemory in MiB for a node that reports so many: less the margin, in full grains.

    A grain is the power of two that is 1/128 to 1/256 of the memory (16 MiB at least): the same
    machine reports some MiB more or less after a reboot (seen), and slurm.conf must stay as it is.
    """
    grain = max(LEAST_GRAIN, 1 << reported.bit_length() >> 8)
    usable = reported * MEMORY_PERCENT // 100
    return usable // grain * grain or usable
