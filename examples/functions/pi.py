"""Estimates pi by random points; a module, so that jobs under any Python can import it."""

import random


def share(seed: int, points: int = 100_000) -> float:
    """The share of random points of a square that are in its circle."""
    numbers = random.Random(seed)  # noqa: S311
    inside = sum(numbers.random() ** 2 + numbers.random() ** 2 < 1 for _ in range(points))
    return inside / points
