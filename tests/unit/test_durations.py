"""Lengths of time, and that nothing else reads them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.durations import (
    clock,
    exact_seconds,
    interval_seconds,
    is_max_time,
    max_time,
    seconds,
    span_seconds,
    words_seconds,
)
from corral.errors import CorralError
from corral.spec import values

SOURCE = Path(__file__).parents[2] / "src/corral"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-02:03:04", 93784),
        ("02:03:04", 7384),
        ("03:04", 184),
        ("5", 300),
        ("1-2", 93600),
        ("1-02:30", 95400),
        ("00:00:01.500", 1),
        ("UNLIMITED", None),
        ("infinite", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_seconds(text: str, expected: int | None) -> None:
    assert seconds(text) == expected


@given(st.integers(0, 10**8))
def test_clock_round_trip(total: int) -> None:
    assert seconds(clock(total)) == total


@pytest.mark.parametrize("text", ["x", "1:2:3:4", "1-", "-5", "1:-2", "5.5", "٣"])
def test_not_a_time(text: str) -> None:
    with pytest.raises(CorralError, match="not a time"):
        seconds(text)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("infinite", "INFINITE"),
        ("8", "08:00:00"),
        ("8:30", "08:30:00"),
        ("2-00:00", "2-00:00:00"),
        ("1-2:03:04", "1-02:03:04"),
        ("48", "2-00:00:00"),
    ],
)
def test_the_cluster_files_hours(limit: str, expected: str) -> None:
    assert max_time(limit) == expected


@pytest.mark.parametrize("limit", ["8h", "1000", "8:60", "1-8:0", "-8", "8\n", "٣", ""])
def test_not_a_limit(limit: str) -> None:
    with pytest.raises(CorralError, match="not a time limit"):
        max_time(limit)


@given(st.from_regex(values.TIME_LIMIT.pattern.replace("$", r"\Z")))
def test_what_the_cluster_file_takes_is_read(limit: str) -> None:
    assert is_max_time(max_time(limit))
    assert (span_seconds(limit) is None) == (limit == "infinite")


@given(st.from_regex(values.SPAN.pattern.replace("$", r"\Z")))
def test_spans_are_read(span: str) -> None:
    assert span_seconds(span) is not None


@pytest.mark.parametrize("text", ["1:00\nNodes=x", "", "infinite", "8h", "1:2:3:4", "1:00.5"])
def test_what_slurm_conf_must_not_have_as_a_limit(text: str) -> None:
    assert not is_max_time(text)


@pytest.mark.parametrize(
    ("text", "length"),
    [("00:01.250", 1.25), ("1-00:00:00", 86400.0), ("", 0.0), ("?", 0.0), ("UNLIMITED", 0.0)],
)
def test_fractions_of_sacct(text: str, length: float) -> None:
    assert exact_seconds(text) == length


@pytest.mark.parametrize(("text", "length"), [("off", 0), ("90s", 90), ("2h", 7200), ("1d", 86400)])
def test_intervals(text: str, length: int) -> None:
    assert interval_seconds(text) == length


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("2 days", 172800),
        ("90min", 5400),
        (" 1W ", 604800),
        ("999 weeks", 604195200),
        ("12 hrs", 43200),
        ("5 months", 12960000),
        ("1 year", 31536000),
        ("2 moons", None),
        ("3 hosts", None),
        ("2", None),
        ("30s", None),
    ],
)
def test_lengths_with_a_unit(text: str, length: int | None) -> None:
    assert words_seconds(text) == length


NOT_SLURMS = {
    "agents/notify/send.py": "of Slurm's, by a program that runs without Corral on the controller",
    "providers/gcp/gcluster.py": "Terraform's ``2m10s elapsed``",
    "cli/terminal/text.py": "``2 h 04 m``, how long a command took",
    "web/history.py": "ranges of the page's charts",
}
"""What reads or writes no length of time of Slurm's or of the cluster file, and why."""
UNITS_IN_NUMBERS = {60, 3600, 86400, 604800, 1440, 10080}
"""Seconds of a minute, hour, day and week; minutes of a day and week."""


def unit_table(values: list[ast.expr]) -> bool:
    """Whether a dictionary's values are two or more units of time."""
    numbers = {
        node.value
        for value in values
        for node in ast.walk(value)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    }
    return len(numbers & UNITS_IN_NUMBERS) > 1


def is_constant(factor: ast.expr) -> bool:
    """Whether it is a name in capitals: a limit that the module sets, and nothing that it reads."""
    return isinstance(factor, ast.Name) and factor.id.isupper()


def readers(text: str) -> list[int]:
    """Lines that read or write a length of time.

    A regex with minutes, a sum of units, a table of them, what is left of a division by one.
    """
    lines: list[int] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("re")), args=[regex, *_]):
                words = [n.value for n in ast.walk(regex) if isinstance(n, ast.Constant)]
                if any("[0-5]" in str(word) or "[0-9]:" in str(word) for word in words):
                    lines.append(node.lineno)
            case ast.BinOp(
                ast.BinOp(factor, ast.Mult(), ast.Constant(24 | 60 | 3600)), ast.Add(), added
            ) if not isinstance(added, ast.Constant) and not is_constant(factor):
                lines.append(node.lineno)
            case ast.Dict(values=values) if unit_table(values):
                lines.append(node.lineno)
            case ast.Call(func=ast.Name("divmod"), args=[_, ast.Constant(unit)]) if (
                unit in UNITS_IN_NUMBERS
            ):
                lines.append(node.lineno)
            case ast.BinOp(ast.BinOp(op=ast.FloorDiv()), ast.Mod(), ast.Constant(60)):
                lines.append(node.lineno)
            case _:
                pass
    return lines


@pytest.mark.parametrize(
    "text",
    [
        'A = re.compile(r"(\\d+-)?\\d+(:[0-5]\\d){0,2}")',
        "total = (days * 24 + hours) * 60 + minutes",
        "total = int(h) * 3600 + int(m)",
        'minutes = int(n) * {"m": 1, "h": 60, "d": 1440}[unit]',
        "A = {'s': 1.0, 'm': 60.0, 'h': 60.0 * 60, 'd': 24 * 3600.0}",
        "days, rest = divmod(minutes, 1440)",
        'text = f"{total // 60 % 60:02}"',
    ],
)
def test_a_second_reader_is_seen(text: str) -> None:
    assert readers(text)


def test_lengths_of_time_are_read_in_one_place() -> None:
    assert readers((SOURCE / "durations.py").read_text())
    others = [f for f in sorted(SOURCE.rglob("*.py")) if f.name != "durations.py"]
    lines = {str(f.relative_to(SOURCE)): seen for f in others if (seen := readers(f.read_text()))}
    assert set(lines) == set(NOT_SLURMS), lines
