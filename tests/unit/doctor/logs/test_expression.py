"""Expressions: what a line must have before one is tried on it, and that time stays linear."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import explain
from corral.doctor.logs.expression import Expression, alternatives
from corral.doctor.logs.fatal_lines import fatal_table
from corral.doctor.logs.log_text import LogText, starts
from corral.doctor.logs.message_reader import readings
from corral.doctor.logs.narrower_causes import causes
from corral.doctor.model import Pattern
from tests.growth import AT_MOST, TIMES, growth, seconds
from tests.unit.doctor.logs.test_messages import CASES

SHORT, LONG = 4_000, 80_000
"""Characters of one line without a line end."""
SUSPECT_S = 0.003
"""CPU seconds for a short one: few expressions take more, and their growth is measured."""


def patterns() -> Iterator[Pattern]:
    for failure in catalog().values():
        yield from failure.every_pattern
    yield from fatal_table().fatal
    for expression in fatal_table().harmless:
        yield from expression.patterns
    for reading in readings():
        yield from (*reading.patterns, *reading.unless_line)
    for row in causes():
        yield from (*row.line, *row.log)
    yield from fatal_table().consequences


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        (r"munge decode failed: rewound", ("munge", "decode", "failed:", "rewound")),
        (r"node key (?:has )?expired", ("node", "expired")),
        (r"xid \([^)]*\): 79\b", ("xid",)),
        (r"colou?r of bx*ts?", ("colo",)),
        (r"first.*second words", ("first", "second", "words")),
        (r"(?:a|b) []x(]+Tail\.end", ("tail.end",)),
        (r"\S+ is not a valid", ("valid",)),
    ],
)
def test_what_an_expression_cannot_match_without(pattern: str, needles: tuple[str, ...]) -> None:
    assert Expression(pattern).needles == needles


@pytest.mark.parametrize(
    ("text", "each"),
    [
        ("one here|another there", ["one here", "another there"]),
        ("(?:mksquash|unsquash).*(?:gone|lost)",
         ["mksquash.*(?:gone|lost)", "unsquash.*(?:gone|lost)"]),
        ("a (?:b|c) long text", ["a (?:b|c) long text"]),
    ],
)  # fmt: skip
def test_alternatives_are_looked_for_one_by_one(text: str, each: list[str]) -> None:
    assert alternatives(text) == each


def test_a_repeated_bracket_is_refused() -> None:
    with pytest.raises(ValueError, match="repeats a bracket"):
        _ = Expression(r"(?:\w+ )+end of it").parts


@pytest.mark.parametrize(
    "text", [r"x\w+\S* y", r"x(?:a\w+|b)\S* y", r"x\S+,?\w+ y", r"x(?:\S+.*) y", r"x[^:]+\w* y"]
)
def test_two_repetitions_of_the_same_characters_are_refused(text: str) -> None:
    """10,000 characters of mlx5dv_devx_ took 0.26 s, those of other expressions a hundredth."""
    with pytest.raises(ValueError, match="that is not linear"):
        _ = Expression(text).parts


@pytest.mark.parametrize("text", [r"x\w+ \S+ y", r"x\w+: \w+", r"x(?:a\w+|b\S+) \S+", r"\d+\D+ y"])
def test_repetitions_apart_are_not(text: str) -> None:
    assert Expression(text).parts


def test_parts_are_found_in_order_only() -> None:
    expression = Expression(r"first \d+.*second")
    assert expression.search("x first 12 and then second y")
    assert not expression.search("x second and then first 12")


def test_looking_for_needles_first_loses_no_finding() -> None:
    """Each expression that matches a known message, without the search for its needles."""
    tried = 0
    for _, _, text in CASES:
        log = LogText(text)
        for pattern in patterns():
            for line in text.splitlines():
                hit = pattern.expression.search(line)
                if hit and pattern.expression.needles and not pattern.expression.leading:
                    tried += 1
                    assert next(log.matches(pattern.expression), None), pattern.text
    assert tried > len(CASES)


def hostile(pattern: Pattern, size: int) -> Iterator[str]:
    """Lines that make a backtracking expression slow: its own texts again and again."""
    expression = pattern.expression
    texts = [" ".join(expression.needles), "".join(expression.needles)]
    for text in filter(None, texts):
        yield (text * (size // len(text) + 1))[:size]
        yield ((text + " ") * (size // (len(text) + 1) + 1))[:size]
    yield "a" * size + " ".join(expression.needles)
    yield " ".join(expression.needles) + "1" * size
    yield "(" * size + " ".join(expression.needles)


def slow_ones(size: int) -> Iterator[tuple[Pattern, int]]:
    """Expressions that take measurable time on one of their hostile lines, and the line's place."""
    for pattern in patterns():
        for place, line in enumerate(hostile(pattern, size)):
            if seconds(partial(pattern.expression.search, line)) > SUSPECT_S:
                yield pattern, place


@pytest.mark.timeout(240)
@pytest.mark.parametrize("size", [SHORT, pytest.param(10 * SHORT, marks=pytest.mark.slow)])
def test_no_expression_is_slow_on_a_hostile_line(size: int) -> None:
    """F52's expression took 3 s on 40,000 characters and four times as long on twice as many."""
    for pattern, place in slow_ones(size):
        lines = [list(hostile(pattern, n))[place] for n in (3 * size // TIMES, 3 * size)]
        searches = [partial(pattern.expression.search, line) for line in lines]
        assert growth(*searches) < AT_MOST, pattern.text


@pytest.mark.parametrize("size", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "filling", ["a", "1", " ", "(", "[", ":", "error ", "/x", "nccl warn ", "\x1b[0m"]
)
def test_a_log_of_one_long_line_is_read_at_once(filling: str, size: int) -> None:
    small, large = ((filling * (n // len(filling)))[:n] for n in (size // TIMES, size))
    assert growth(partial(explain, small), partial(explain, large)) < AT_MOST


def test_the_start_of_a_message_is_found_in_linear_time() -> None:
    for filling in ("a", "a: ", "[1] ", "0: ", "1: a: ", " "):
        small, large = ((filling * n)[:n] for n in (LONG // TIMES, LONG))
        assert growth(partial(starts, small), partial(starts, large)) < AT_MOST
