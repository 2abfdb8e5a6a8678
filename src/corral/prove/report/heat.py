"""Matrices as heat maps: orange is bad, blue is good, and bad cells say so in words too. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.prove.figures import Better, Matrix
from corral.prove.report.scales import written
from corral.prove.report.tree import Node, h

# Orange and blue: told apart with every common kind of colour blindness.
_BAD: Final = (0xB3, 0x58, 0x06)
_MIDDLE: Final = (0xF2, 0xF2, 0xF2)
_GOOD: Final = (0x1F, 0x5F, 0xA8)
_CELL: Final = 50
_TALL: Final = 28
_SMALL: Final = 12
"""Pixels of a cell where there are too many names for numbers in the cells."""
MOST_NUMBERS: Final = 16
_LETTER: Final = 7.0
_HALF: Final = 0.5
_LINEAR_FROM: Final = 0.04045

Rgb = tuple[int, int, int]


def heat_svg(matrix: Matrix) -> Node:
    """The matrix, rows downwards."""
    many = max(len(matrix.rows), len(matrix.columns)) > MOST_NUMBERS
    wide, tall = (_SMALL, _SMALL) if many else (_CELL, _TALL)
    left = 10 + _LETTER * min(max(map(len, matrix.rows), default=0), 18)
    top = 10 + _LETTER * min(max(map(len, matrix.columns), default=0), 18) * 0.75
    known = [cell for row in matrix.cells for cell in row if cell is not None]
    parts: list[Node] = [h("title", matrix.title)]
    for at, name in enumerate(matrix.columns):
        if not many or at % 8 == 0:
            parts.append(
                h("text", name[:18], x=0, y=0, class_="tick",
                  transform=f"translate({left + (at + 0.5) * wide:.1f} {top - 4:.1f}) rotate(-40)")
            )  # fmt: skip
    for i, row in enumerate(matrix.cells):
        y = top + i * tall
        if not many or i % 8 == 0:
            parts.append(h("text", matrix.rows[i][:18], x=left - 5, y=y + tall / 2 + 4,
                           class_="tick end"))  # fmt: skip
        for j, cell in enumerate(row):
            place = (left + j * wide, y, wide, tall)
            parts += _cell(matrix, cell, known, place, many=many)
    width = left + wide * len(matrix.columns) + 34
    height = top + tall * len(matrix.rows) + 4
    return h(
        "svg",
        *parts,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_label=f"{matrix.title}: {len(matrix.rows)} by {len(matrix.columns)}",
        class_="heat",
        style=f"max-width: {width * 1.3:.0f}px; min-width: {min(width * 0.8, 720):.0f}px",
    )


def verdict_of(matrix: Matrix, value: float) -> str:
    """``fail``, ``warn`` or "" for a cell."""
    for limit, word in ((matrix.fail, "fail"), (matrix.warn, "warn")):
        if limit is None:
            continue
        beyond = value > limit if matrix.better is Better.LESS else value < limit
        if beyond:
            return word
    return ""


def _cell(
    matrix: Matrix,
    cell: float | None,
    known: Sequence[float],
    place: tuple[float, float, int, int],
    *,
    many: bool,
) -> list[Node]:
    x, y, wide, tall = place
    if cell is None:
        return [h("rect", x=x, y=y, width=wide - 1, height=tall - 1, class_="none")]
    word = verdict_of(matrix, cell)
    colour = _colour(_goodness(matrix, cell, known))
    words = f"{written(cell)} {matrix.unit}" + (f", {word}" if word else "")
    found = [
        h("rect", h("title", words), x=x, y=y, width=wide - 1, height=tall - 1,
          fill=_hex(colour), class_=f"cell {word}".strip())
    ]  # fmt: skip
    if not many:
        mark = {"fail": "\u2716 ", "warn": "! "}.get(word, "")
        found.append(
            h("text", mark + _short(cell), x=x + (wide - 1) / 2, y=y + tall / 2 + 4,
              style=f"fill: {ink(colour)}", class_="number middle")
        )  # fmt: skip
    return found


def _short(value: float) -> str:
    """Two or three digits: what fits into a cell, about what such a figure is worth."""
    if abs(value) >= 100:  # noqa: PLR2004
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 0.1 else f"{value:.2g}"  # noqa: PLR2004


def _goodness(matrix: Matrix, value: float, known: Sequence[float]) -> float:
    """0 (bad) to 1 (good). Figures within some 30 % of the best look good: noise is no picture."""
    if matrix.better is Better.LESS:
        best = min(known)
        worst = matrix.fail if matrix.fail is not None else max(*known, best * 1.5 + 1e-12)
        return _within((worst - value) / (worst - best) if worst > best else 1.0)
    best = max(known)
    worst = matrix.fail if matrix.fail is not None else min(*known, best * 0.6)
    return _within((value - worst) / (best - worst) if best > worst else 1.0)


def _within(share: float) -> float:
    return min(1.0, max(0.0, share))


def _colour(share: float) -> Rgb:
    if share < _HALF:
        return _mixed(_BAD, _MIDDLE, share * 2)
    return _mixed(_MIDDLE, _GOOD, share * 2 - 1)


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    a, b, c = (round(p + (q - p) * share) for p, q in zip(one, other, strict=True))
    return a, b, c


def _hex(colour: Rgb) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)


def ink(colour: Rgb) -> str:
    """Black or white, whichever reads better on a colour (at least 4.5 : 1 on all of them)."""
    light = luminance(colour)
    return "#000000" if (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) else "#ffffff"


def luminance(colour: Rgb) -> float:
    """Relative luminance of WCAG 2.2, 0 to 1."""
    parts = (part / 255 for part in colour)
    red, green, blue = (
        p / 12.92 if p <= _LINEAR_FROM else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
