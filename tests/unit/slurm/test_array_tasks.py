"""Tasks of arrays, and that nothing else reads them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import corral
from corral.slurm.array_tasks import array_label, array_tasks, label_of, without_limit

SOURCE = Path(corral.__file__).parent
READER = "slurm/array_tasks.py"
WRITTEN = ("12_[1-5%2]", "12_[1,3-7:2]", "12_[3,...]", "1-5%2", "0-8:2", "1,3-7:2", "[1,3-7:2]")
"""Tasks as Slurm and its users write them."""
ANYTHING = ("a b", "word", "some-key", "gpu:2", "1-00:00:00", "12:", "#!", "x/y", "(?:", "[a-z]")
"""A pattern that takes one of these is for other texts, too."""
ZONES = {
    "web/listener/peers.py": "the zone of an address",
    "slurm/adopt/system_files.py": "the zone of an address",
    "slurm/adopt/rules/network.py": "the zone of an address",
}
"""Modules that divide a text at ``%``, which no array is."""


@pytest.mark.parametrize(
    ("text", "numbers", "exact"),
    [
        ("0-3", (0, 1, 2, 3), True), ("7,1,5", (1, 5, 7), True), ("1-5%2", (1, 2, 3, 4, 5), True),
        ("1,3-7:2", (1, 3, 5, 7), True), ("2,0-2", (0, 1, 2), True), ("4-6,...", (4, 5, 6), False),
        ("1,x", (1,), False), ("3-1", (), True), ("", (), False), ("1-3:0", (1, 2, 3), True),
    ],
)  # fmt: skip
def test_tasks(text: str, numbers: tuple[int, ...], *, exact: bool) -> None:
    tasks = array_tasks(text)
    assert (tasks.numbers(100), tasks.exact) == (numbers, exact)


def test_too_many_tasks_are_not_made() -> None:
    with pytest.raises(ValueError, match="more than 100 parts"):
        array_tasks("0-9999999999").numbers(100)
    assert array_tasks("0-9999999999").counted() == (10_000_000_000, True)


@pytest.mark.parametrize("label", ["12_3", "12_[4-7%2]", "12_[1,3-7:2]", "12_[1,...]"])
def test_a_label_is_read_as_it_is_written(label: str) -> None:
    read = array_label(label)
    assert read is not None
    assert (str(read), read.array) == (label, 12)
    assert label_of("12", read.written) == label


@pytest.mark.parametrize(
    "label", ["12", "12+1", "12_", "x_1", "12_[1", "12_[[1]]", f"{'9' * 5000}_1"]
)
def test_the_label_of_another_job(label: str) -> None:
    assert array_label(label) is None


def test_the_limit_of_an_option() -> None:
    assert without_limit("0-9%2") == ("0-9", "2")
    assert without_limit("0-9%") == ("0-9", "")
    assert without_limit("0-9") == ("0-9", None)


def readers(tree: ast.AST) -> Iterator[int]:
    """Lines that take tasks of arrays apart: a pattern for them, or a label divided."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="compile"), args=[ast.Constant(value=str(text)), *_]
            ):
                if takes(text):
                    yield node.lineno
            case ast.Call(
                func=ast.Attribute(value=value, attr="partition" | "rpartition" | "split"),
                args=[ast.Constant(value=str(mark)), *_],
            ):
                of_label = isinstance(value, ast.Attribute) and value.attr == "label"
                if mark == "%" or (mark == "_" and of_label):
                    yield node.lineno
            case _:
                pass


def takes(text: str) -> bool:
    """Whether a pattern is one for tasks of arrays, complete or span by span."""
    try:
        pattern = re.compile(text)
    except re.error:
        return False
    return any(map(pattern.fullmatch, WRITTEN)) and not any(map(pattern.fullmatch, ANYTHING))


@pytest.mark.parametrize(
    "text",
    [
        r're.compile(r"\d+_(?:\[([0-9,:-]+)(?:%\d+)?\]|(\d+))")',
        r're.compile(r"\d{1,7}(-\d{1,7}(:\d{1,7})?)?")',
        r're.compile(r"\d+_\[(?P<tasks>[0-9,:-]+)(?P<cut>[,.]*\.\.\.)?(?:%\d+)?\]")',
        'value.partition("%")',
        'job.label.rpartition("_")[2]',
    ],
)
def test_another_reader_is_seen(text: str) -> None:
    assert list(readers(ast.parse(text))) == [1]


def test_nothing_else_reads_them() -> None:
    assert list(readers(ast.parse((SOURCE / READER).read_text())))
    others = {
        name: lines
        for file in sorted(SOURCE.rglob("*.py"))
        if (name := str(file.relative_to(SOURCE))) != READER
        if (lines := list(readers(ast.parse(file.read_text()))))
    }
    assert others.keys() == ZONES.keys()
