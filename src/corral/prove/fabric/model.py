"""One benchmark of one collective: rows of sizes with time and bandwidth, and who took part.

Units everywhere: sizes in bytes, times in microseconds, bandwidths in GB/s of 10^9 bytes. What
algbw and busbw are, and their factors: nccl-tests, doc/PERFORMANCE.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Collective(StrEnum):
    """What the ranks did together."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SENDRECV = "sendrecv"
    GATHER = "gather"
    SCATTER = "scatter"
    HYPERCUBE = "hypercube"


_CHUNKED: Final = frozenset(
    {
        Collective.ALL_GATHER,
        Collective.REDUCE_SCATTER,
        Collective.ALL_TO_ALL,
        Collective.GATHER,
        Collective.SCATTER,
    }
)


def bus_factor(collective: Collective, ranks: int) -> float:
    """Ratio of busbw to algbw for a number of ranks (nccl-tests, doc/PERFORMANCE.md)."""
    if collective is Collective.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if collective in _CHUNKED or collective is Collective.HYPERCUBE:
        return (ranks - 1) / ranks
    return 1.0


@dataclass(frozen=True, slots=True)
class Timing:
    """One measurement.

    Attributes:
        time_us: time of one operation.
        algbw: size / time.
        busbw: what the slowest link carried, comparable with its rate.
        wrong: elements that differed from what they should be; None: not checked.
        delta: greatest error, as nccl-tests before 2.13 gave in the place of ``wrong``.
    """

    time_us: float
    algbw: float
    busbw: float
    wrong: float | None = None
    delta: float | None = None

    @property
    def checked(self) -> bool:
        """Whether its result was compared with what it should be."""
        return self.wrong is not None or self.delta is not None


@dataclass(frozen=True, slots=True)
class Row:
    """One size.

    Attributes:
        line: line of the log, from 1; 0 when it did not come from text.
        size: bytes.
        count: elements.
        type: element type, in the benchmark's word.
        redop: reduction, ``none`` or "" where there is none.
        root: root rank, -1 where there is none.
        out_of_place: measured from one buffer to another.
        in_place: measured within one buffer.
    """

    line: int
    size: int
    count: int
    type: str
    redop: str
    root: int
    out_of_place: Timing | None
    in_place: Timing | None

    @property
    def timings(self) -> tuple[Timing, ...]:
        """Those that were measured."""
        return tuple(t for t in (self.out_of_place, self.in_place) if t is not None)

    @property
    def best(self) -> float:
        """The higher bus bandwidth of the two; 0 when none is a number.

        One whose result was not checked does not count next to one that was: nccl-tests 2.19 has no
        check for alltoall and sendrecv in place, where a rank's own part need not move.
        """
        timings = [t for t in self.timings if t.checked] or self.timings
        return max((t.busbw for t in timings if math.isfinite(t.busbw)), default=0.0)


@dataclass(frozen=True, slots=True)
class Rank:
    """Who took part: its number, its host, its device's name."""

    rank: int
    host: str
    device: str


@dataclass(frozen=True, slots=True)
class Table:
    """One benchmark.

    Attributes:
        rows: in the order they were measured.
        collective: what was measured; None when the table does not show it.
        certain: the log states it; else it was inferred from the columns and the numbers.
        ranks: how many took part; 0 when neither the log nor the numbers show it.
        members: each of them, where the log lists them.
        out_of_bounds: wrong results in all, as in the log; None when it is not there.
        average: mean of all bus bandwidths as in the log; None when it is not there.
        complete: the closing lines are there.
        label: the prefix of each line (``3`` of ``srun --label``), "" when nothing did.
        version: of nccl-tests, "" when the log does not have it.
        notes: what a reader should know about the table.
    """

    rows: tuple[Row, ...]
    collective: Collective | None = None
    certain: bool = False
    ranks: int = 0
    members: tuple[Rank, ...] = ()
    out_of_bounds: int | None = None
    average: float | None = None
    complete: bool = False
    label: str = ""
    version: str = ""
    notes: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        """How many hosts took part; 0 when the log does not list them."""
        return len({m.host for m in self.members})

    @property
    def timings(self) -> Iterator[Timing]:
        """All measurements."""
        return (t for row in self.rows for t in row.timings)

    @property
    def checked(self) -> bool:
        """True when results were compared with what they should be."""
        return any(t.checked for t in self.timings)

    @property
    def wrong(self) -> int:
        """Wrong results: the log's own sum, or that of the rows when it is larger."""
        rows = sum(t.wrong for t in self.timings if t.wrong is not None)
        return max(int(rows), self.out_of_bounds or 0)
