"""Tables of collectives and pairs of nodes as figures that a report draws. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from corral.prove.fabric.model import Table
from corral.prove.fabric.slow_parts import Pair
from corral.prove.fabric.verdict import SEVERAL, SINGLE, Verdict
from corral.prove.figures import Axis, Level, Mark, Matrix, Plot, Series

SIZE: Final = Axis("message size", "B", log=True)
BUSBW: Final = Axis("bus bandwidth", "GB/s")


def bench_charts(tables: Sequence[tuple[Table, Verdict]]) -> tuple[Plot, ...]:
    """Bus bandwidth against size, with the limit and the reference, a plot for each table."""
    return tuple(_plot(table, verdict) for table, verdict in tables)


def _plot(table: Table, verdict: Verdict) -> Plot:
    name = verdict.collective.value if verdict.collective else table.label or "collective"
    curves: dict[str, list[tuple[float, float]]] = {"out of place": [], "in place": []}
    for row in table.rows:
        for placement, timing in (("out of place", row.out_of_place), ("in place", row.in_place)):
            if timing is not None and row.size > 0 and math.isfinite(timing.busbw):
                curves[placement].append((float(row.size), timing.busbw))
    series = tuple(
        Series(placement, tuple(points)) for placement, points in curves.items() if points
    )
    where = f" over {table.nodes} nodes" if table.nodes > 1 else ""
    return Plot(f"{name}{where}", SIZE, BUSBW, series, tuple(_levels(table, verdict)))


def _levels(table: Table, verdict: Verdict) -> list[Level]:
    known = verdict.reference
    if known is None:
        return []
    warn, fail = SINGLE if table.nodes == 1 else SEVERAL
    source = f" ({known.source})" if known.source else ""
    levels = [
        Level(Mark.REFERENCE, known.busbw, f"reference {known.busbw:.4g} GB/s{source}"),
        Level(Mark.WARN, known.busbw * warn, f"warns below {known.busbw * warn:.4g} GB/s"),
        Level(Mark.FAIL, known.busbw * fail, f"fails below {known.busbw * fail:.4g} GB/s"),
    ]
    if known.limit:
        levels.append(Level(Mark.LIMIT, known.limit, f"limit {known.limit:.4g} GB/s"))
    return levels


def pair_matrix(pairs: Sequence[Pair], usual: float) -> Matrix:
    """What each two nodes reach, compared with what is usual here."""
    names = tuple(sorted({name for pair in pairs for name in (pair.first, pair.second)}))
    rate = {frozenset((pair.first, pair.second)): pair.busbw for pair in pairs}
    cells = tuple(
        tuple(None if row == column else rate.get(frozenset((row, column))) for column in names)
        for row in names
    )
    fail = usual * SEVERAL[1] if usual else None
    return Matrix("Each pair of nodes", names, names, cells, "GB/s", fail=fail)
