"""Figures of a check that a report can draw: plots and matrices. Data only, JSON-ready.

A check puts them into ``Evidence.charts``; ``report`` draws them, ``as_dict`` gives
them to ``--json`` and to the history, from where ``chart_from`` reads them back. Numbers that are
not finite are refused where they arise: a plot with a NaN in it would be a lie or a broken page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from corral.errors import Code, CorralError

MOST_POINTS: Final = 10_000
"""Points of a plot and cells of a matrix: a page must stay one that a phone can show."""


class Better(StrEnum):
    """Which way is good."""

    MORE = "more"
    LESS = "less"


class Mark(StrEnum):
    """What a level line of a plot stands for."""

    LIMIT = "limit"  # cannot be passed
    REFERENCE = "reference"  # what a healthy one shows
    WARN = "warn"  # beyond it the check warns
    FAIL = "fail"  # beyond it the check fails


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis counts.

    Attributes:
        name: such as "message size".
        unit: such as ``GB/s``; ``B`` is shown as KiB, MiB, GiB.
        log: a logarithmic scale, by powers of two for ``B`` and of ten else; values above 0 only.
    """

    name: str
    unit: str = ""
    log: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """One measured curve: its name, and points (x, y) in any order."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line with its meaning, its height, and words such as "limit 12.5 GB/s"."""

    mark: Mark
    y: float
    words: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over a common axis.

    Attributes:
        title: what is shown, such as "all_reduce over 4 nodes".
        x: the axis to the right.
        y: the axis up.
        series: one or several curves, at most eight can be distinguished by colour.
        levels: horizontal lines.
        better: which way is good along ``y``.

    Raises:
        CorralError: USAGE, it holds a number that cannot be drawn, or too many.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    levels: tuple[Level, ...] = ()
    better: Better = Better.MORE

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        points = [point for series in self.series for point in series.points]
        _drawable(self.title, [x for x, _ in points], above=self.x.log)
        heights = [*(y for _, y in points), *(level.y for level in self.levels)]
        _drawable(self.title, heights, above=self.y.log)

    def as_dict(self) -> dict[str, object]:
        """``chart_from`` reads it back."""
        return {"kind": "plot", **asdict(self)}


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of one figure for each pair, such as the bandwidth from node to node.

    Attributes:
        title: what is shown.
        rows: names, from.
        columns: names, to.
        cells: one tuple for each row; None where nothing was measured (a node with itself).
        unit: of the cells.
        better: which way is good.
        warn: the value beyond which a cell warns; None: none does.
        fail: the value beyond which a cell fails; None: none does.

    Raises:
        CorralError: USAGE, the cells do not fit the names, or one cannot be drawn.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[float | None, ...], ...]
    unit: str = ""
    better: Better = Better.MORE
    warn: float | None = None
    fail: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is not a table."""
        if len(self.cells) != len(self.rows) or any(
            len(row) != len(self.columns) for row in self.cells
        ):
            raise _refused(self.title, "its cells do not fit its names")
        known = [cell for row in self.cells for cell in row if cell is not None]
        _drawable(self.title, [*known, *(v for v in (self.warn, self.fail) if v is not None)])

    def as_dict(self) -> dict[str, object]:
        """``chart_from`` reads it back."""
        return {"kind": "matrix", **asdict(self)}


Chart = Plot | Matrix


def chart_from(data: Mapping[str, Any]) -> Chart:
    """Read what ``as_dict`` wrote.

    Raises:
        CorralError: PARSE_FAILED, it is not a chart.
    """
    try:
        return _matrix(data) if data["kind"] == "matrix" else _plot(data)
    except (KeyError, TypeError, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED,
            f"this is not a figure of a proof: {error!r}",
            hint="only what Corral wrote itself can be read",
        ) from error


def _plot(data: Mapping[str, Any]) -> Plot:
    if data["kind"] != "plot":
        raise ValueError(data["kind"])
    x, y = (Axis(str(a["name"]), str(a["unit"]), bool(a["log"])) for a in (data["x"], data["y"]))
    return Plot(
        str(data["title"]),
        x,
        y,
        tuple(
            Series(str(s["name"]), tuple((float(a), float(b)) for a, b in s["points"]))
            for s in data["series"]
        ),
        tuple(Level(Mark(v["mark"]), float(v["y"]), str(v["words"])) for v in data["levels"]),
        Better(data["better"]),
    )


def _matrix(data: Mapping[str, Any]) -> Matrix:
    return Matrix(
        str(data["title"]),
        tuple(map(str, data["rows"])),
        tuple(map(str, data["columns"])),
        tuple(tuple(_number(cell) for cell in row) for row in data["cells"]),
        str(data["unit"]),
        Better(data["better"]),
        _number(data["warn"]),
        _number(data["fail"]),
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _drawable(title: str, numbers: Sequence[float], *, above: bool = False) -> None:
    if len(numbers) > MOST_POINTS:
        raise _refused(title, f"it has {len(numbers)} points, {MOST_POINTS} are the most")
    if not all(math.isfinite(n) for n in numbers):
        raise _refused(title, "a number in it is not finite")
    if above and any(n <= 0 for n in numbers):
        raise _refused(title, "a logarithmic axis shows numbers above 0 only")


def _refused(title: str, why: str) -> CorralError:
    return CorralError(Code.USAGE, f"the figure {title!r} cannot be drawn: {why}")
