"""Text from machines gives a terminal no commands."""

from __future__ import annotations

import io
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from corral.cli.terminal.text import clean, coloured, duration, one_line, size
from corral.cli.terminal.ui import console
from corral.plurals import plural


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


HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\x07\r\x08\x0b\x0c\x7f\x9b\x9d\u202e\u2028[]0;m31"),
    ),
    max_size=40,
)
"""Text with escapes, C1 controls, overrides and what resembles a colour."""

SGR = re.compile(r"\x1b\[[0-9;]*m")


class Stream(io.StringIO):
    """What a console writes to, a terminal or a pipe."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def obeyed(written: str) -> set[str]:
    """Escape sequences, other than colours, that a terminal would obey."""
    rest = SGR.sub("", written)
    return {c for c in rest if not c.isprintable() and c not in "\n\t\u00a0\u3000"}


@pytest.mark.parametrize("terminal", [True, False])
@given(HOSTILE)
def test_no_view_can_forget_to_clean(terminal: bool, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        stream = Stream(terminal=terminal)
        out = console(stream)
        grid = Table("name", text)
        grid.add_row("x", text)
        for printed in (text, Text(text), Text(text, "red"), grid, Group(Text(text), Panel(text))):
            out.print(printed, soft_wrap=isinstance(printed, (str, Text)))
        out.print(text, Text(text), sep=text)
        assert obeyed(stream.getvalue()) == set()
        if not terminal:
            assert "\x1b" not in stream.getvalue()


@given(HOSTILE)
def test_a_jobs_colours_are_kept_and_nothing_else(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        for terminal in (True, False):
            stream = Stream(terminal=terminal)
            console(stream).print(coloured(text), soft_wrap=True)
            assert obeyed(stream.getvalue()) == set()
            assert terminal or "\x1b" not in stream.getvalue()


def test_colours_of_a_job() -> None:
    line = "\x1b[31mred\x1b[0m \x1b[8mhidden\x1b[0m \x1b]52;c;ZWNobw==\x07 \x1b[2J \x9b31m"
    made = coloured(line)
    assert made.plain == "red hidden \\x1b]52;c;ZWNobw==\\x07 \\x1b[2J \\x9b31m"
    styles: dict[str, Any] = {made.plain[s.start : s.end]: s.style for s in made.spans}
    assert styles["red"].color.number == 1
    assert not styles["hidden"].conceal
