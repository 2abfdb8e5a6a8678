"""Words for what a change does: one list, which tables, models, plans and the page share."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from corral.spec.impacts import IMPACTS, Impact

SOME = {"reload", "restart", "recreate"}


def test_each_word_is_a_change_of_a_plan() -> None:
    assert tuple(impact.word for impact in Impact) == IMPACTS
    assert [Impact[word.upper()] for word in IMPACTS] == sorted(Impact)


def lists(tree: ast.AST) -> Iterator[int]:
    """Lines that list the words: in a type, a collection, or the members of a class."""
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                words = {str(part.value) for part in parts if isinstance(part, ast.Constant)}
            case ast.ClassDef(body=body):
                rows = [row for row in body if isinstance(row, ast.Assign)]
                words = {ast.unparse(target).lower() for row in rows for target in row.targets}
            case _:
                continue
        if words >= SOME:
            yield node.lineno


def test_the_words_are_listed_once(repo: Path) -> None:
    source = repo / "src/corral"
    places = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if any(lists(ast.parse(file.read_text())))
    }
    assert places == {"spec/impacts.py"}
