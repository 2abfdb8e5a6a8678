"""Tests of speed compare two times of one run, and the comparison finds work that is quadratic."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from tests.growth import AT_MOST, TIMES, TOO_SHORT_S, growth, seconds

TESTS = Path(__file__).parents[1]


def linear(count: int) -> int:
    return sum(range(count))


def quadratic(count: int) -> int:
    return sum(1 for a in range(count) for b in range(count) if a == b)


def lasting(work: partial[int]) -> int:
    """A count that takes the work longer than the clock's grain."""
    count = 64
    while seconds(partial(work, count)) < TOO_SHORT_S:
        count *= 2
    return count


def test_linear_work_passes_and_quadratic_work_does_not() -> None:
    for work, passes in ((linear, True), (quadratic, False)):
        count = lasting(partial(work))
        ratio = growth(partial(work, count), partial(work, TIMES * count))
        assert (ratio < AT_MOST) is passes, (work, ratio)


def test_no_other_unit_test_reads_a_clock_to_judge_speed() -> None:
    clock = re.compile(r"\b(?:perf_counter|process_time)\b|assert[^\n]*monotonic\(\) *-")
    timed = [
        str(file.relative_to(TESTS))
        for file in sorted((TESTS / "unit").rglob("*.py"))
        if file != Path(__file__) and clock.search(file.read_text())
    ]
    assert not timed, "use tests/growth.py"
