"""Slurm's hostlists with the order kept: NodeName and NodeAddr are paired by position.

ClusterShell's NodeSet sorts, so it cannot write a NodeAddr list that belongs to a NodeName list;
Slurm's own ``hostlist_create`` keeps the order written (src/common/hostlist.c). Tests use NodeSet
and ``scontrol show hostnames`` as oracles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ClusterShell.NodeSet import (  # pyright: ignore[reportMissingTypeStubs]
    NodeSetParseError,
)

from corral.errors import Code, CorralError
from corral.spec.hostlist import expand

_NUMBERED: Final = re.compile(r"(.*[^0-9])([0-9]{1,9})")


@dataclass(slots=True)
class _Run:
    """Consecutive numbers, written with ``width`` digits at least."""

    first: int
    last: int
    width: int

    def takes(self, digits: str) -> bool:
        following = f"{self.last + 1:0{self.width}}"
        # [00-100] would mean 000..100 to some readers: a padded run ends where its width does.
        return digits == following and (self.width == 1 or len(digits) == self.width)

    def __str__(self) -> str:
        low = f"{self.first:0{self.width}}"
        return low if self.first == self.last else f"{low}-{self.last:0{self.width}}"


def fold_in_order(names: Iterable[str]) -> str:
    """Names as a hostlist that expands to the same names in the same order.

    ``["n0", "n1", "n2", "n7"]`` gives ``n[0-2,7]``. Only numbers at the end of a name are folded.
    """
    parts: list[str] = []
    prefix, runs = "", list[_Run]()
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if not found:
            parts += _closed(prefix, runs)
            prefix, runs = "", []
            parts.append(name)
            continue
        head, digits = found.groups()
        if runs and head == prefix and runs[-1].takes(digits):
            runs[-1].last += 1
            continue
        if head != prefix:
            parts += _closed(prefix, runs)
            prefix, runs = head, []
        width = len(digits) if digits.startswith("0") else 1
        runs.append(_Run(int(digits), int(digits), width))
    parts += _closed(prefix, runs)
    return ",".join(parts)


def _closed(prefix: str, runs: list[_Run]) -> list[str]:
    if not runs:
        return []
    if len(runs) == 1 and runs[0].first == runs[0].last:
        return [f"{prefix}{runs[0]}"]
    return [f"{prefix}[{','.join(str(run) for run in runs)}]"]


def expand_in_order(hostlist: str) -> list[str]:
    """Names of a hostlist of a file that somebody else may have written.

    Raises:
        CorralError: brackets do not match, a range is not a range, or it names too many.
    """
    try:
        return expand(hostlist, loose=True)
    except NodeSetParseError as error:
        raise CorralError(
            Code.PARSE_FAILED,
            f"hostlist {hostlist[:80]!r}: {error}",
            hint="write it as node[0-2,7],gpu1",
        ) from error
