"""Text from machines does nothing to a terminal."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from corral.cli.text import clean, duration, one_line, plural, size


@given(st.text(st.characters(exclude_categories=[])))
def test_clean_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    for char in clean(text):
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs"), repr(char)
    clean(text).encode("utf-8")


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


def test_clean_keeps_what_people_read() -> None:
    assert clean("Zürich: ok\n\t日本語 100\u00a0%") == "Zürich: ok\n\t日本語 100\u00a0%"


def test_clean_shows_what_was_there() -> None:
    assert clean("\x1b[31mred\x07\r\x9b2J\u202e") == "\\x1b[31mred\\x07\\r\\x9b2J\\u202e"


def test_durations() -> None:
    assert [duration(s) for s in (0.04, 59.9, 60, 185, 3600, 7500)] == [
        "0.0 s",
        "59.9 s",
        "1 m 00 s",
        "3 m 05 s",
        "1 h 00 m",
        "2 h 05 m",
    ]


def test_sizes_and_numbers() -> None:
    assert [size(n) for n in (0, 999, 1_000, 812_000_000, 1_700_000_000)] == [
        "0 B",
        "999 B",
        "1 kB",
        "812 MB",
        "1.7 GB",
    ]
    assert (plural(1, "node"), plural(0, "node"), plural(2, "match", "matches")) == (
        "1 node",
        "0 nodes",
        "2 matches",
    )
