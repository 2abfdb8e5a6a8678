"""What a table states by its numbers alone: which collective it was, and of how many ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from corral.prove.fabric.model import Collective, Row, bus_factor

_CHUNKED: Final = 0.99
"""A ratio below this is (n-1)/n of some n, above it 1 (not distinguished from 100 ranks on)."""

# Programs of nccl-tests, with and without _perf and _mpi, and the ways others write the names.
_NAMES: Final = {
    "all_reduce": Collective.ALL_REDUCE,
    "allreduce": Collective.ALL_REDUCE,
    "all_gather": Collective.ALL_GATHER,
    "allgather": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "reducescatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
    "all_to_all": Collective.ALL_TO_ALL,
    "alltoallv": Collective.ALL_TO_ALL,
    "broadcast": Collective.BROADCAST,
    "reduce": Collective.REDUCE,
    "sendrecv": Collective.SENDRECV,
    "gather": Collective.GATHER,
    "scatter": Collective.SCATTER,
    "hypercube": Collective.HYPERCUBE,
}


def named(program: str) -> Collective | None:
    """The collective of a benchmark's name, such as ``./build/all_reduce_perf_mpi``."""
    base = program.strip().rpartition("/")[2].removesuffix("_mpi").removesuffix("_perf")
    return _NAMES.get(base.lower())


def bus_ratio(rows: Sequence[Row]) -> float:
    """Busbw over algbw of all rows, the largest counting most; 0 when there is none."""
    bus = alg = 0.0
    for row in rows:
        for timing in row.timings:
            if math.isfinite(timing.algbw) and math.isfinite(timing.busbw):
                bus, alg = bus + timing.busbw, alg + timing.algbw
    return bus / alg if alg else 0.0


def collective_of(rows: Sequence[Row], ratio: float, size_ratio: float) -> Collective | None:
    """The likeliest collective, from reduction, root and ratio; None when several are as likely.

    Args:
        rows: the table.
        ratio: busbw / algbw.
        size_ratio: algbw x time / size: 1, or (n-1)/n as the chunked ones had it before 2.10.
    """
    if not rows or not ratio:
        return None
    first = rows[0]
    chunked = min(ratio, size_ratio) < _CHUNKED
    reduces = first.redop not in ("", "none")
    if reduces and first.root >= 0:
        return Collective.REDUCE
    if reduces:
        # Two ranks: 2(n-1)/n is 1, as it is for reduce, which has a root.
        return Collective.REDUCE_SCATTER if chunked else Collective.ALL_REDUCE
    if first.root >= 0:
        # gather and scatter look alike.
        return None if chunked else Collective.BROADCAST
    # alltoall gives the same numbers; all_gather is what people measure.
    return Collective.ALL_GATHER if chunked else Collective.SENDRECV


def ranks_of(collective: Collective | None, ratio: float, size_ratio: float) -> int:
    """How many ranks give this ratio; 0 when it fits none."""
    if collective is None:
        return 0
    if collective is Collective.ALL_REDUCE:
        return _rank_count(2 / (2 - ratio) if ratio < 2 else 0, collective, ratio)  # noqa: PLR2004
    share = min(ratio, size_ratio)
    if bus_factor(collective, 2) == 1.0 or share >= 1:
        return 0
    return _rank_count(1 / (1 - share), collective, share)


def _rank_count(value: float, collective: Collective, ratio: float) -> int:
    ranks = round(value)
    # One rank more or less moves the ratio by about 1/n^2: nearer than half of that, or no answer.
    near = abs(bus_factor(collective, ranks) - ratio) < 0.4 / ranks**2 if ranks else False
    return ranks if near and ranks > 1 else 0
