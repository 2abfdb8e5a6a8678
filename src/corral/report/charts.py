"""Numbers and charts as a report's templates show them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.prove.figures import Better, Matrix, Plot

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
MOST_NUMBERS: Final = 16
"""Rows and columns of a heat map whose cells hold numbers; those of a larger one are in a table."""
MOST_ROWS: Final = 200
"""Rows of a table next to a chart; the JSON has all."""


def written(value: float, unit: str = "") -> str:
    """A number for people: ``1.5``, ``12400``; bytes as ``64 MiB``."""
    if unit == "B":
        size, at = value, 0
        while size >= 1024 and at < len(_UNITS) - 1:  # noqa: PLR2004
            size, at = size / 1024, at + 1
        return f"{size:.4g} {_UNITS[at]}"
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):  # noqa: PLR2004
        return f"{value:.3g}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004


def verdict_of(matrix: Matrix, value: float) -> str:
    """``fail``, ``warn`` or "" for a cell."""
    for limit, word in ((matrix.fail, "fail"), (matrix.warn, "warn")):
        if limit is not None and (value > limit if matrix.better is Better.LESS else value < limit):
            return word
    return ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a heat map.

    Attributes:
        text: the number.
        verdict: ``fail``, ``warn`` or "".
        good: its colour is on the good side of the middle.
        percent: how far from the middle, 0 to 100.
    """

    text: str
    verdict: str
    good: bool
    percent: int


def heat_rows(matrix: Matrix) -> Sequence[tuple[str, Sequence[Cell | None]]]:
    """The rows of a heat map by name; None where nothing was measured."""
    known = [cell for row in matrix.cells for cell in row if cell is not None]
    less = matrix.better is Better.LESS
    best = (min if less else max)(known, default=0.0)
    worst = matrix.fail
    if worst is None:
        # Values within about 30 % of the best look good: noise is not a pattern.
        worst = max(*known, best * 1.5 + 1e-12) if less else min(*known, best * 0.6)

    def cell(value: float) -> Cell:
        verdict = verdict_of(matrix, value)
        share = (value - worst) / (best - worst) if best != worst else 1.0
        share = 0.0 if verdict == "fail" else min(1.0, max(0.0, share))
        return Cell(written(value), verdict, share > 0.5, round(abs(share * 2 - 1) * 100))  # noqa: PLR2004

    return [
        (name, [None if value is None else cell(value) for value in row])
        for name, row in zip(matrix.rows, matrix.cells, strict=True)
    ]


def plot_head(plot: Plot) -> Sequence[str]:
    """The columns of a plot's table."""
    unit = f" ({plot.y.unit})" if plot.y.unit else ""
    return (plot.x.name, *(f"{series.name}{unit}" for series in plot.series))


def plot_rows(plot: Plot) -> Sequence[Sequence[str]]:
    """A plot's numbers, one row for each place on the horizontal axis."""
    places = sorted({x for series in plot.series for x, _ in series.points})[:MOST_ROWS]
    values = [dict(series.points) for series in plot.series]
    return [
        (written(x, plot.x.unit), *(written(v[x]) if x in v else "" for v in values))
        for x in places
    ]


def plot_words(plot: Plot) -> str:
    """What a plot shows, for those who do not see it."""
    tops = [
        f"{series.name} up to {written(max(y for _, y in series.points))} {plot.y.unit}"
        for series in plot.series
        if series.points
    ]
    return f"{plot.title}: {plot.y.name} against {plot.x.name}, {', '.join(tops)}"


def key(chart: Plot | Matrix) -> str:
    """The lines of a plot, or the colours of a heat map and where it warns and fails."""
    if isinstance(chart, Plot):
        lines = (
            level.words or f"{level.mark.value} {written(level.y)} {chart.y.unit}"
            for level in chart.levels
        )
        return "; ".join(lines)
    colours = {"more": "blue is more, orange is less", "less": "blue is less, orange is more"}
    words = [": ".join(w for w in (chart.unit, colours.get(chart.better.value, "")) if w)]
    beyond = "above" if chart.better is Better.LESS else "below"
    for limit, what in ((chart.warn, "! warns"), (chart.fail, "\u2716 fails")):
        words += [] if limit is None else [f"{what} {beyond} {written(limit)}"]
    return "; ".join(word for word in words if word)
