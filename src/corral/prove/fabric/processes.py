"""Processes that each measured alone: nccl-tests built without MPI, started several times at once.

It is the most frequent mistake with nccl-tests (its issues 27, 71, 107, 254). Each process calls
itself rank 0 and prints a header and rows, and the lines of all of them are mixed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from corral.prove.fabric.nccl_tests_text import HEADER, parted

_RANK_0: Final = re.compile(r"#?\s*Rank\s+0\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s")
_SIZES: Final = re.compile(r"#?\s*nThread\s+\d+\s+nGpus\s+\d+\s+minBytes\s")
_BOUNDS: Final = re.compile(r"#?\s*Out of bounds values\s*:")
_AVERAGE: Final = re.compile(r"#?\s*Avg bus bandwidth\s*:")
_FAILED: Final = re.compile(
    r"Test (?:NCCL |CUDA )?failure|srun: error|mpirun|prterun|ORTE|Segmentation fault|Killed"
    r"|^\S*\$ "
)
"""A run that ended otherwise: what follows is another try."""
_KINDS: Final = (_RANK_0, _SIZES, HEADER, _BOUNDS, _AVERAGE)
_RANK_LABEL: Final = re.compile(r"\d+:|\[\d+(?:,\d+)*\](?:<\w+>)?:?")
"""Names that launchers give to ranks (srun --label, mpirun --tag-output). Hosts are not ranks:
``pdsh`` measures each host alone on purpose."""


@dataclass(slots=True)
class _Printed:
    """What was printed under one name since the last run began.

    Attributes:
        failures: runs that had failed in the log when this was last checked.
        ended: nothing of a run has begun since the last one ended.
        rank_0: a line of rank 0 was seen.
        seen: lines of each kind.
    """

    failures: int = 0
    ended: bool = True
    rank_0: bool = False
    seen: Counter[re.Pattern[str]] = field(default_factory=Counter[re.Pattern[str]])

    def take(self, kind: re.Pattern[str]) -> int:
        """Take one more line; how many runs have begun before the first of them ended."""
        # The closing lines of the other processes follow those of the first.
        if self.ended and kind not in (_BOUNDS, _AVERAGE):
            self.seen.clear()
        self.ended = (self.ended and kind is _BOUNDS) or kind is _AVERAGE
        self.rank_0 = self.rank_0 or kind is _RANK_0
        self.seen[kind] += kind is not _AVERAGE
        return max(self.seen.values())


def separate_processes(text: str) -> int:
    """How many processes measured alone although they were started together; 0 where none did.

    Args:
        text: the log.
    """
    names: defaultdict[str, _Printed] = defaultdict(_Printed)
    most = failures = 0
    for raw in text.splitlines():
        label, body = parted(raw)
        kind = next((kind for kind in _KINDS if kind.match(body)), None)
        if kind is None:
            # nccl-tests puts the host before this line, which so has another name than its run.
            failures += bool(_FAILED.search(raw))
            continue
        printed = names[label]
        printed.ended = printed.ended or printed.failures < failures
        printed.failures = failures
        most = max(most, printed.take(kind))
    ranks = [label for label, p in names.items() if p.rank_0 and _RANK_LABEL.fullmatch(label)]
    most = max(most, len(ranks))
    return most if most > 1 else 0
