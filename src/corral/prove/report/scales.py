"""Axes: where ticks stand, how numbers are written. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.prove.figures import Axis

_NICE: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
TICKS: Final = 6
_OFF: Final = 0.03


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values of an axis to 0..1.

    Attributes:
        axis: what it counts.
        low: value at 0.
        high: value at 1.
        ticks: values that are marked.
    """

    axis: Axis
    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where a value stands, 0..1."""
        low, high, at = self.low, self.high, value
        if self.axis.log:
            low, high, at = math.log(low), math.log(high), math.log(value)
        return (at - low) / (high - low)


def scale_of(axis: Axis, values: Sequence[float], *, zero: bool = False) -> Scale:
    """A scale over values.

    Args:
        axis: what they are.
        values: at least one.
        zero: begin at 0 (not on a logarithmic axis): a curve is then not larger than it is.
    """
    low, high = min(values), max(values)
    if axis.log:
        return _logarithmic(axis, low, high)
    if zero and low >= 0:
        low = 0.0
    if high == low:
        high = low + (abs(low) or 1.0)
    step = _step((high - low) / (TICKS - 1))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(step * i for i in range(first, last + 1))
    return Scale(axis, ticks[0], ticks[-1], ticks)


def _logarithmic(axis: Axis, low: float, high: float) -> Scale:
    base = 2.0 if axis.unit == "B" else 10.0
    # Sizes are often a little off a power of two, as they are whole numbers of elements per rank.
    first = math.floor(math.log(low, base) + _OFF)
    last = max(math.ceil(math.log(high, base) - _OFF), first + 1)
    every = max(1, math.ceil((last - first) / TICKS))
    ticks = tuple(base**i for i in range(first, last + 1, every))
    return Scale(axis, base**first, base**last, ticks)


def _step(raw: float) -> float:
    size = 10.0 ** math.floor(math.log10(raw))
    return next(n for n in _NICE if n * size >= raw * (1 - 1e-9)) * size


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
