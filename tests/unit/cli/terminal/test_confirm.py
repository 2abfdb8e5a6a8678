"""One question for all verbs, and one table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import corral.cli
from corral.cli.terminal.text import right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError

MODULES = {
    path.name: ast.parse(path.read_text()) for path in Path(corral.cli.__path__[0]).rglob("*.py")
}


def calls(name: str) -> Iterator[str]:
    """The modules that call a function or method of this name."""
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = node.func
                if name in {getattr(called, "id", ""), getattr(called, "attr", "")}:
                    yield module


def test_yes_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ui, "interactive", False)
    assert Ui().confirm("Do it?", yes=True)


def test_without_a_terminal_it_is_a_usage_error_that_states_how_things_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Ui, "interactive", False)
    with pytest.raises(CorralError) as caught:
        Ui().confirm("Do it?", state="half is done")
    assert caught.value.code is Code.USAGE
    assert caught.value.hint == "run it with --yes to do it without asking; half is done"


def test_the_terminal_is_read_for_an_answer_in_one_place() -> None:
    assert set(calls("typed_line")) == {"ui.py"}
    assert not {*calls("input"), *calls("prompt"), *calls("ask")}
    questions = [m for m, tree in MODULES.items() if "[y/N]" in ast.unparse(tree)]
    assert questions == ["ui.py"]


def test_every_verb_with_yes_asks_by_confirm() -> None:
    asking = {*calls("confirm"), *calls("Approval"), *calls("rotate_mesh")}
    taking = {
        module
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) and ast.unparse(node.annotation or node) == "YES"
    }
    assert len(taking) > 8
    assert taking <= asking


def test_tables_are_made_in_one_place() -> None:
    assert set(calls("Table")) == {"text.py"}


def test_a_column_is_aligned_by_what_it_is_and_not_by_its_title() -> None:
    """A sweep's parameter named ``time`` was aligned to the right like the time of the part."""
    made = table((*right("part"), "time", *right("time")), [("1", "2", "3")])
    assert [column.justify for column in made.columns] == ["right", "left", "right"]
