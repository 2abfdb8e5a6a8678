"""A verdict instead of numbers: is this table as fast as its hardware should be?

The rule (reference/baselines.md, section 6): judge the plateau, never the average over sizes; the
reference is a healthy figure of the same hardware; several nodes warn below 0.90 and fail below
0.70 of it, one node warns below 0.96 and fails below 0.90; wrong results always fail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from corral.errors import Code, CorralError
from corral.prove.fabric.model import Collective, Row, Table

GIB: Final = 1 << 30
MIB: Final = 1 << 20
SEVERAL: Final = (0.90, 0.70)
SINGLE: Final = (0.96, 0.90)
_OVER: Final = 1.02
"""A figure may exceed its limit by what a benchmark's clock and a rounded rate give."""

_ONE_RANK: Final = (
    "one rank sends nothing: there is no speed to judge; use more GPUs (-g), or start more "
    "processes of an nccl-tests that was built with MPI=1"
)


class Outcome(StrEnum):
    """How good it is."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reference:
    """What a healthy one shows.

    Attributes:
        busbw: GB/s on the plateau.
        limit: GB/s that cannot be passed, 0 when it is not known.
        source: where the figure is from.

    Raises:
        CorralError: USAGE, a reference above its limit (AWS's sample thresholds are: they fail
            every healthy cluster).
    """

    busbw: float
    limit: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse what no cluster can reach."""
        if not (math.isfinite(self.busbw) and self.busbw > 0):
            raise CorralError(
                Code.USAGE,
                f"a reference of {self.busbw:g} GB/s is not valid",
                hint="give GB/s above 0",
            )
        if self.limit and self.busbw > self.limit * _OVER:
            raise CorralError(
                Code.USAGE,
                f"a reference of {self.busbw:g} GB/s is above the limit of {self.limit:.4g} GB/s",
                hint="no cluster of this topology can reach it: correct the reference, or the NICs",
            )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one table.

    Attributes:
        outcome: pass, warn, fail, or unknown when there is nothing to compare with.
        collective: what was measured.
        busbw: the figure that was judged, GB/s.
        size: bytes at which it was reached.
        reference: what it was compared with.
        reasons: sentences: why it is so, the gravest first.
    """

    outcome: Outcome
    collective: Collective | None
    busbw: float
    size: int
    reference: Reference | None
    reasons: tuple[str, ...] = field(default_factory=tuple)

    def as_dict(self) -> dict[str, object]:
        known = self.reference
        return {
            "outcome": self.outcome.value,
            "collective": self.collective.value if self.collective else None,
            "busbw_gb_s": self.busbw,
            "size_bytes": self.size,
            "reference_gb_s": known.busbw if known else None,
            "reference_source": known.source if known else None,
            "limit_gb_s": (known.limit or None) if known else None,
            "reasons": list(self.reasons),
        }


def plateau(table: Table) -> Row:
    """The row that is judged: the fastest of 1 GiB and more, or the largest size there is."""
    large = [row for row in table.rows if row.size >= GIB]
    return max(large, key=lambda r: r.best) if large else max(table.rows, key=lambda r: r.size)


def judge(table: Table, reference: Reference | None, nodes: int) -> Verdict:
    """Compare a table with what healthy hardware shows.

    Args:
        table: as read, with at least one row.
        reference: None when nothing is known to compare with.
        nodes: how many nodes took part; 0: not known, taken for several.
    """
    row = plateau(table)
    if table.ranks == 1:
        outcome, reasons = Outcome.UNKNOWN, [_ONE_RANK]
    else:
        outcome, reasons = _speed(row.best, reference, SINGLE if nodes == 1 else SEVERAL)
    if row.size < GIB:
        reasons.append(
            f"the largest size is {row.size / MIB:.3g} MiB: the plateau may be higher (from 1 GiB)"
        )
    if reference is not None and reference.limit and row.best > reference.limit * _OVER:
        outcome = _worse(outcome, Outcome.WARN)
        reasons.insert(
            0,
            f"{row.best:.4g} GB/s is more than the topology can carry ({reference.limit:.4g}): "
            "the declared NICs or the number of nodes are wrong",
        )
    if not table.complete:
        outcome = _worse(outcome, Outcome.WARN)
    reasons += table.notes
    if table.wrong:
        outcome = Outcome.FAIL
        reasons.insert(0, f"{table.wrong} results are wrong: data was damaged on its way")
    return Verdict(outcome, table.collective, row.best, row.size, reference, tuple(reasons))


def _speed(
    busbw: float, reference: Reference | None, rule: tuple[float, float]
) -> tuple[Outcome, list[str]]:
    if reference is None:
        text = "nothing is known to compare it with: name the hardware by --hardware"
        return Outcome.UNKNOWN, [f"{text} (corral bench hardware lists it) or give --reference"]
    share = busbw / reference.busbw
    warn, fail = rule
    outcome = Outcome.FAIL if share < fail else Outcome.WARN if share < warn else Outcome.PASS
    return outcome, [
        f"{busbw:.4g} GB/s is {share:.0%} of the reference {reference.busbw:g} GB/s "
        f"(warns below {reference.busbw * warn:.4g}, fails below {reference.busbw * fail:.4g})"
    ]


def _worse(first: Outcome, second: Outcome) -> Outcome:
    order = (Outcome.PASS, Outcome.UNKNOWN, Outcome.WARN, Outcome.FAIL)
    return max(first, second, key=order.index)
