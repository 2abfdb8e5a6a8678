"""Whether a table agrees with itself, and what it states by its numbers alone. Pure.

Bandwidth follows from size and time, the ratio of the two bandwidths from the number of ranks, and
the average from the rows. A digit lost or swapped anywhere breaks one of these.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Final

from corral.errors import Code, CorralError
from corral.prove.fabric.model import Collective, Row, Table, Timing, bus_factor

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


_LARGEST = 1 << 50
_HALF = 0.0051
"""Half of the last digit of a bandwidth of two decimals, and a hair."""
_HALF_US = 0.06
"""Half of the last digit of a time of one decimal, and a hair."""
_WIDEST_US = 9_999_999
_WIDEST_GB_S = 999_999
"""Above these nccl-tests 2.17.7 and later print 2 digits and 1: 1.5e+07 (util.cu, getFloatStr)."""
_LOST = 2e-4
"""Relative error of numbers of more than 4 digits, which lose their decimals."""
_CHUNKS = 0.008
"""(n-1)/n of more than 125 ranks cannot be distinguished from 1."""


def settled(table: Table, *, largest: int = 0, cpu: bool = False) -> Table:
    """The table with its collective and ranks filled in, once it agrees with itself.

    Args:
        table: as read.
        largest: the last size that was asked for, 0 when not known.
        cpu: times are CPU times: nothing follows from them.

    Raises:
        CorralError: PARSE_FAILED, naming the row.
    """
    if not table.rows:
        raise _wrong("a header without any row after it: the run ended before its first")
    if odd := next((row for row in table.rows if row.size > _LARGEST), None):
        raise _wrong("a size above 1 PiB is not the size of a buffer", odd.line)
    _cut(table, largest)
    ratio = bus_ratio(table.rows)
    size_ratio, blur = (1.0, 0.0) if cpu else _size_ratio(table.rows, ratio)
    unsure = _unsure(table.rows, ratio)
    for row in table.rows:
        for timing in filter(_finite, row.timings):
            if not cpu:
                _time_agrees(row, timing, size_ratio, blur)
            _ratio_agrees(row, timing, ratio, unsure)
    _average_agrees(table)
    collective = table.collective or collective_of(table.rows, ratio, size_ratio)
    ranks = table.ranks or ranks_of(collective, ratio, size_ratio)
    completed = dataclasses.replace(table, collective=collective, ranks=ranks)
    _ranks_agree(completed, min(ratio, ratio * size_ratio), unsure)
    return dataclasses.replace(completed, notes=(*completed.notes, *_notes(completed, cpu=cpu)))


def _cut(table: Table, largest: int) -> None:
    last = max(row.size for row in table.rows)
    # all_gather and its kin round the size down to chunks of 16 bytes per rank.
    if largest and not table.complete and last < largest * 0.9:
        raise _wrong(
            f"the table is cut: its last size is {last} bytes, the run was to go to {largest}",
            table.rows[-1].line,
        )


def _size_ratio(rows: tuple[Row, ...], ratio: float) -> tuple[float, float]:
    """Algbw x time / size over all rows: 1, or (n-1)/n in chunked collectives before 2.10.

    Those had (n-1)/n in both bandwidths, which were equal then.

    Returns:
        the ratio, and how far it can be off where all bandwidths are too small to be exact.
    """
    pairs = [
        (t.algbw, row.size / t.time_us / 1000)
        for row in rows
        for t in row.timings
        if _finite(t) and t.time_us
    ]
    expected = sum(d for _, d in pairs)
    measured = sum(alg for alg, _ in pairs) / expected if expected else 1.0
    unsure = len(pairs) * _HALF / expected if expected else 1.0
    blur = unsure + _CHUNKS if unsure > _CHUNKS else 0.0
    if abs(ratio - 1) > _CHUNKS + unsure and ratio:
        return 1.0, 0.0
    if measured > 1 - _CHUNKS - unsure or measured <= 0:
        return 1.0, blur
    return measured, unsure


def _finite(timing: Timing) -> bool:
    return all(map(math.isfinite, (timing.time_us, timing.algbw, timing.busbw)))


def _unsure(rows: tuple[Row, ...], ratio: float) -> float:
    """How far the ratio can be off, from the rounding of all bandwidths it was made of."""
    bandwidths = [t.algbw for row in rows for t in row.timings if _finite(t)]
    return len(bandwidths) * _HALF * (1 + ratio) / sum(bandwidths) if sum(bandwidths) else 1.0


def _time_agrees(row: Row, timing: Timing, size_ratio: float, blur: float) -> None:
    if min(timing.time_us, timing.algbw, timing.busbw) < 0:
        raise _wrong("it has a negative time or bandwidth", row.line)
    if not timing.time_us:
        return
    expected = row.size * size_ratio / timing.time_us / 1000
    lost = _lost(timing.time_us, _WIDEST_US, 2) + _lost(timing.algbw, _WIDEST_GB_S, 1)
    slack = _HALF + expected * (_LOST + blur + lost + _HALF_US / max(timing.time_us, 1))
    if abs(timing.algbw - expected) > slack:
        raise _wrong(
            f"{row.size} bytes in {timing.time_us:g} us are {expected:.2f} GB/s, and the row has "
            f"{timing.algbw:g}",
            row.line,
        )


def _lost(value: float, widest: float, digits: int) -> float:
    """Relative error of a number that did not fit its column and kept so many digits."""
    if value <= widest or value != float(f"{value:.{digits - 1}e}"):
        return 0.0
    return 10.0 ** (math.floor(math.log10(value)) - digits + 1) / 2 / value


def _ratio_agrees(row: Row, timing: Timing, ratio: float, unsure: float) -> None:
    expected = timing.algbw * ratio
    # Where nothing but hundredths were printed, the ratio may be any there is: at most 2.
    widest = 2.0 if unsure > 0.1 else ratio  # noqa: PLR2004
    slack = _HALF * (1 + widest) + timing.algbw * unsure + expected * _LOST
    if abs(timing.busbw - expected) > slack:
        raise _wrong(
            f"its bandwidths are {timing.algbw:g} and {timing.busbw:g} GB/s, and those of all "
            f"rows together are as 1 to {ratio:.4g}",
            row.line,
        )


def _average_agrees(table: Table) -> None:
    bandwidths = [t.busbw for t in table.timings]
    if table.average is None or not all(map(math.isfinite, bandwidths)):
        return
    mean = statistics.fmean(bandwidths)
    if not math.isfinite(table.average) or abs(mean - table.average) > _HALF + mean * 1e-4:
        raise _wrong(
            f"the rows' mean bus bandwidth is {mean:.4f} GB/s and the log has {table.average:g}: "
            "rows are missing, or numbers were changed",
            table.rows[-1].line,
        )


def _ranks_agree(table: Table, ratio: float, unsure: float) -> None:
    if table.collective is None or not table.ranks or not ratio:
        return
    expected = bus_factor(table.collective, table.ranks)
    if abs(ratio - expected) > _CHUNKS + unsure:
        raise _wrong(
            f"{table.collective} over {table.ranks} ranks has bandwidths as 1 to {expected:.4g}, "
            f"these are as 1 to {ratio:.4g}",
            table.rows[-1].line,
        )


def _notes(table: Table, *, cpu: bool) -> tuple[str, ...]:
    notes: list[str] = []
    if not table.complete:
        notes.append("the closing lines are missing: the run may have gone on")
    if not table.checked:
        notes.append("results were not checked (-c 0, #wrong is N/A)")
    if cpu:
        notes.append("times are CPU times (-C 1): they were not compared with the bandwidths")
    if table.collective is None:
        notes.append("the table does not show which collective it is")
    elif not table.certain:
        notes.append(f"taken for {table.collective} from its columns and numbers")
    if any(not math.isfinite(t.busbw) for t in table.timings):
        notes.append("some bandwidths are not numbers")
    return tuple(notes)


def _wrong(what: str, line: int = 0) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        f"line {line}: {what}" if line else what,
        hint="give the log as nccl-tests wrote it, from the header to Avg bus bandwidth",
    )
