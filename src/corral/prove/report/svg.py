"""Plots as SVG. What they show stands beside them as a table too. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from corral.prove.figures import Mark, Plot, Series
from corral.prove.report.scales import Scale, scale_of, written
from corral.prove.report.tree import Node, h

WIDTH: Final = 460
HEIGHT: Final = 290
LEFT: Final = 54
RIGHT: Final = 30
TOP: Final = 12
BOTTOM: Final = 44
COLOURS: Final = 8
"""Series told apart by colour (CSS classes s0 to s7), by dash and by the shape of their points."""
_DASHES: Final = (None, "7 4", "2 3", "9 3 2 3")
_NEAR: Final = 13.0
"""Pixels between two words on level lines."""


def plot_svg(plot: Plot) -> Node:
    """The curves with axes, grid and level lines."""
    points = [point for one in plot.series for point in one.points]
    heights = [*(y for _, y in points), *(level.y for level in plot.levels)]
    if not points:
        return h("p", "nothing was measured", class_="muted")
    x = scale_of(plot.x, [x for x, _ in points])
    y = scale_of(plot.y, heights, zero=True)
    words = f"{plot.title}: {plot.y.name} against {plot.x.name}, " + ", ".join(
        f"{one.name} up to {written(max(v for _, v in one.points))} {plot.y.unit}"
        for one in plot.series
        if one.points
    )
    return h(
        "svg",
        h("title", words),
        *_grid(x, y),
        *_levels(plot, y),
        *(part for i, one in enumerate(plot.series) for part in _curve(i, one, x, y)),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=words,
        class_="plot",
    )


def legend(plot: Plot) -> Node:
    """Which curve is which, and what each level line means."""
    items = [
        h("li", _sample(h("line", x1=1, y1=7, x2=27, y2=7, stroke_dasharray=_dash(i),
                          class_=f"curve s{i % COLOURS}"),
                        _marker(i, 14.0, 7.0)), " ", one.name)
        for i, one in enumerate(plot.series)
    ]  # fmt: skip
    items += [
        h("li", _sample(h("line", x1=1, y1=7, x2=27, y2=7, class_=f"level {level.mark}")),
          " ", level.words or f"{level.mark.value} {written(level.y)} {plot.y.unit}")
        for level in plot.levels
    ]  # fmt: skip
    return h("ul", *items, class_="legend")


def _sample(*parts: Node) -> Node:
    return h("svg", *parts, viewBox="0 0 28 14", class_="sample", aria_hidden="true")


def _dash(index: int) -> str | None:
    return _DASHES[index // COLOURS % len(_DASHES)] if index >= COLOURS else _DASHES[index % 4]


def _across(place: float) -> float:
    return LEFT + place * (WIDTH - LEFT - RIGHT)


def _up(place: float) -> float:
    return HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)


def _grid(x: Scale, y: Scale) -> Iterator[Node]:
    for tick in y.ticks:
        at = _up(y.place(tick))
        yield h("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid")
        yield h("text", written(tick, _only_bytes(y)), x=LEFT - 6, y=at + 4, class_="tick end")
    for tick in x.ticks:
        at = _across(x.place(tick))
        yield h("line", x1=at, x2=at, y1=_up(0) + 4, y2=_up(1), class_="grid")
        yield h("text", written(tick, _only_bytes(x)), x=at, y=_up(0) + 17, class_="tick middle")
    name = x.axis.name if _only_bytes(x) else _named(x)
    yield h("text", name, x=_across(0.5), y=HEIGHT - 8, class_="axis middle")
    yield h("text", _named(y), x=0, y=0, class_="axis middle",
            transform=f"translate(13 {_up(0.5):.1f}) rotate(-90)")  # fmt: skip


def _only_bytes(scale: Scale) -> str:
    return "B" if scale.axis.unit == "B" else ""


def _named(scale: Scale) -> str:
    return f"{scale.axis.name} ({scale.axis.unit})" if scale.axis.unit else scale.axis.name


def _levels(plot: Plot, y: Scale) -> Iterator[Node]:
    lines = [level for level in plot.levels if y.low <= level.y <= y.high]
    taken: list[float] = []
    for level in sorted(lines, key=lambda one: -one.y):
        at = _up(y.place(level.y))
        yield h("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_=f"level {level.mark}")
        # Words of lines that lie close together would cover each other; the legend has them all.
        words_at = at - 4 if at - 4 > TOP + 8 else at + 12
        if all(abs(words_at - other) >= _NEAR for other in taken):
            taken.append(words_at)
            yield h("text", _short(level.mark), x=LEFT + 5, y=words_at, class_=f"said {level.mark}")


def _short(mark: Mark) -> str:
    return {Mark.WARN: "warns below", Mark.FAIL: "fails below"}.get(mark, mark.value)


def _curve(index: int, one: Series, x: Scale, y: Scale) -> Iterator[Node]:
    points = [(_across(x.place(a)), _up(y.place(b))) for a, b in sorted(one.points)]
    if len(points) > 1:
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        yield h("polyline", points=path, stroke_dasharray=_dash(index),
                class_=f"curve s{index % COLOURS}")  # fmt: skip
    for a, b in _spread(points):
        yield _marker(index, a, b)


def _spread(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """At most some forty markers: more would be a smear."""
    every = max(1, len(points) // 40)
    return points[::every]


def _marker(index: int, x: float, y: float) -> Node:
    kind, cls = index % 4, f"point s{index % COLOURS}"
    if kind == 1:
        return h("rect", x=x - 3, y=y - 3, width=6, height=6, class_=cls)
    if kind == 2:  # noqa: PLR2004
        points = f"{x:.1f},{y - 4:.1f} {x + 4:.1f},{y + 3:.1f} {x - 4:.1f},{y + 3:.1f}"
        return h("polygon", points=points, class_=cls)
    if kind == 3:  # noqa: PLR2004
        points = f"{x:.1f},{y - 4:.1f} {x + 4:.1f},{y:.1f} {x:.1f},{y + 4:.1f} {x - 4:.1f},{y:.1f}"
        return h("polygon", points=points, class_=cls)
    return h("circle", cx=x, cy=y, r=3, class_=cls)
