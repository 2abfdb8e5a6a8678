"""Which columns a table has: read from its own header, so that no layout is assumed.

nccl-tests 2.0 to 2.12 print only the columns that the collective has (no ``redop`` for all_gather,
no ``root`` for all_reduce); since 2.13 there are always both, ``error`` (greatest difference)
became ``#wrong`` (elements that differ), ``-C`` prints ``cputime``, ``-I`` adds ``i_*`` and ``-S``
a timestamp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

HEADER: Final = re.compile(r"#?\s*size\s+count\s+type\s")
OLD_HEADER: Final = re.compile(r"#?\s*bytes\s+N\s+type\s")
"""nccl-tests 1: other columns, milliseconds."""

_LEFT: Final = ("size", "count", "type", "redop", "root")
_TIMES: Final = ("time", "cputime")
_GROUP: Final = ("algbw", "busbw")
_CHECKS: Final = ("error", "#wrong")
_AFTER: Final = {"timestamp": 2, "algo": 1, "proto": 1, "nchannels": 1}
"""Columns after the measurements, and their words: ``-S``, and what rccl-tests adds for AMD."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of one table.

    Attributes:
        left: columns before the measurements.
        groups: the columns of each group of measurements (out-of-place, then in-place).
        check: ``error`` or ``#wrong``.
        cpu: times are CPU times, which do not follow from size and bandwidth.
        after: words of a row after its measurements, unrelated to speed.
    """

    left: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    check: str
    cpu: bool
    after: int

    @property
    def group_width(self) -> int:
        """Columns of one group."""
        return len(self.groups[0])

    @property
    def width(self) -> int:
        """Words in a complete row."""
        return len(self.left) + sum(map(len, self.groups)) + self.after


def layout(header: str) -> Layout:
    """Columns from the header line.

    Raises:
        ValueError: a column that is not known, or one missing.
    """
    # Pages and chats take the sign before "wrong" for markup.
    names = ["#wrong" if name == "wrong" else name for name in header.lstrip("# ").split()]
    left: list[str] = []
    while names and names[0] in _LEFT:
        left.append(names.pop(0))
    after = 0
    while names and names[-1] in _AFTER:
        after += _AFTER[names.pop()]
    groups: list[tuple[str, ...]] = []
    for name in names:
        if name in _TIMES:
            groups.append((name,))
        elif groups:
            groups[-1] = (*groups[-1], name)
        else:
            raise ValueError(f"column {name!r} comes before any time")
    if not groups or len(groups) > 2 or len(set(groups)) != 1:  # noqa: PLR2004 - two buffers
        raise ValueError("there must be one or two equal groups of columns that begin with time")
    first = groups[0]
    known = (*_TIMES, *_GROUP, *_CHECKS, "i_min", "i_max", "i_p99", "i_cv%")
    odd = [name for name in first if name not in known]
    checks = [name for name in first if name in _CHECKS]
    if odd or len(checks) != 1 or first[1:3] != _GROUP or len(set(first)) != len(first):
        raise ValueError(f"columns are {' '.join(first)}: not time, algbw, busbw and one check")
    return Layout(tuple(left), tuple(groups), checks[0], first[0] == "cputime", after)
