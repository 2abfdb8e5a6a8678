"""Tests of speed compare two times of one run, and the comparison finds work that is quadratic."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from tests.growth import AT_MOST, TIMES, TOO_SHORT_S, TURNS, growth

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("took", "ratio"),
    [
        ({"small": [1.0, 1.0], "large": [4.0]}, 4),
        ({"small": [1.0, 1.0], "large": [16.0] * TURNS}, 16),
        ({"small": [1.0, 1.0], "large": [40.0, 15.0, 4.0]}, 4),  # disturbed twice
        ({"small": [3.0, 1.0], "large": [16.0] * TURNS}, 16),
        ({"small": [0.0, 0.0], "large": [TOO_SHORT_S]}, 1),
    ],
    ids=["linear", "quadratic", "disturbed", "disturbed-small", "too-short"],
)
def test_a_square_is_seen_and_a_disturbance_is_not(
    took: dict[str, list[float]], ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"now": 0.0}
    monkeypatch.setattr("tests.growth.time.process_time", lambda: clock["now"])
    turns = {size: iter(seconds) for size, seconds in took.items()}

    def work(size: str) -> None:
        clock["now"] += next(turns[size])

    assert growth(partial(work, "small"), partial(work, "large")) == pytest.approx(ratio)
    assert not [size for size, left in turns.items() if next(left, None) is not None]
    assert TIMES < AT_MOST < TIMES**2


def test_no_other_unit_test_reads_a_clock_to_judge_speed() -> None:
    clock = re.compile(r"\b(?:perf_counter|process_time)\b|assert[^\n]*monotonic\(\) *-")
    timed = [
        str(file.relative_to(TESTS))
        for file in sorted((TESTS / "unit").rglob("*.py"))
        if file != Path(__file__) and clock.search(file.read_text())
    ]
    assert not timed, "use tests/growth.py"
