"""Words for what a change does: one list, which tables, models, plans and the page share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from corral.spec.impacts import IMPACTS, Impact
from corral.spec.schema import walk
from tests.embedded.impacts import EDITS, NOT_HERE

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


def test_every_field_changes_on_a_live_cluster_or_has_a_reason(repo: Path) -> None:
    leaves = {f.path for f in walk() if f.type != "mapping"}
    missing = sorted(leaves - EDITS.keys() - NOT_HERE.keys())
    assert not missing, f"no test changes these fields on a live cluster: {missing}"
    assert EDITS.keys() & NOT_HERE.keys() == set()
    assert EDITS.keys() | NOT_HERE.keys() <= leaves, "a field that is no more"
    cited = {
        n for why in NOT_HERE.values() for n in re.findall(r"tests/[\w/.]*\w|test_\w+\.py", why)
    }
    places = [repo / (n if n.startswith("tests/") else f"tests/embedded/{n}") for n in cited]
    assert cited and not [place for place in places if not place.exists()]
