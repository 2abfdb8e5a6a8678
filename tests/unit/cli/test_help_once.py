"""A help text is written once: what several verbs share is in ``cli/options.py``."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import corral.cli

LEAST = 12
"""Characters: shorter ones are a unit or a word."""


def helps(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="help", value=ast.Constant(value=str(text))) if len(text) > LEAST:
                yield text
            case _:
                pass


def test_no_help_is_written_twice() -> None:
    folder = Path(corral.cli.__file__).parent
    trees = [ast.parse(file.read_text()) for file in folder.rglob("*.py")]
    count = Counter(text for tree in trees for text in helps(tree))
    assert len(count) > 100
    assert [text for text, times in count.items() if times > 1] == []


def test_a_default_that_typer_shows_is_not_written_again() -> None:
    folder = Path(corral.cli.__file__).parent
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and any("Default: " in text for text in helps(node)):
                own = {k.arg: k.value for k in node.keywords}
                if "help" in own:
                    shown = own.get("show_default")
                    assert isinstance(shown, ast.Constant) and shown.value is False, file
