"""What a line must hold before an expression is tried on it."""

from __future__ import annotations

import pytest

from corral.doctor.catalog import CATALOG
from corral.doctor.model import held
from tests.unit.doctor.test_reading import CASES


@pytest.mark.parametrize(
    ("pattern", "due"),
    [
        (r"munge decode failed: rewound", "failed:"),
        (r"node key (?:has )?expired", "expired"),
        (r"xid \([^)]*\): 79\b", "xid"),
        (r"colou?r of bx*ts?", "colo"),
        (r"\S*.{0,40}(?:no such file|permission)", ""),
        (r"one here|another there", ""),
        (r"(?:a|b) []x(]+Tail\.end", "tail.end"),
    ],
)
def test_what_an_expression_cannot_match_without(pattern: str, due: str) -> None:
    assert held(pattern) == due


def test_looking_for_that_first_loses_no_finding() -> None:
    """Each expression that matches a known message, by itself."""
    tried = 0
    for _, _, text in CASES:
        for failure in CATALOG.values():
            for pattern, due in zip(failure.patterns, failure.held, strict=True):
                if pattern.search(text):
                    tried += 1
                    assert due in text.lower(), pattern.pattern
    assert tried > len(CASES) // 2
