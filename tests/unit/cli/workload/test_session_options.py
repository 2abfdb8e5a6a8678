"""Options that ``corral shell`` and ``corral notebook`` share."""

from __future__ import annotations

import ast
import inspect
from itertools import combinations
from pathlib import Path

import pytest

from corral.cli.workload import notebook, shell
from corral.cli.workload.session_options import session_options, with_session_options

CLI = Path(inspect.getfile(shell)).parents[1]
MOST = 8
"""Options that two verbs may both write out."""


def names(verb: object) -> list[str]:
    return [*inspect.signature(verb).parameters]  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", [shell.shell, notebook.notebook])
def test_both_have_all_of_them(verb: object) -> None:
    assert set(names(session_options)) < set(names(verb))
    assert "given" not in names(verb)


def test_they_come_before_the_named_option() -> None:
    def verb(a: int, *, b: str, **given: object) -> int:
        return len(given)

    assert names(with_session_options("b")(verb)) == ["a", *names(session_options), "b"]


def options_of(text: str) -> list[set[tuple[str, str]]]:
    """Parameters of each command of a module: name and annotation, without the module's name."""
    return [
        {
            (a.arg, ast.unparse(a.annotation).removeprefix("job."))
            for a in node.args.kwonlyargs
            if a.annotation
        }
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]


def test_no_two_verbs_write_the_same_list() -> None:
    """``run``, which has all fields of a job in its own order, is left out."""
    files = [f for f in CLI.rglob("*.py") if f.stem != "run"]
    verbs = [options for file in files for options in options_of(file.read_text())]
    same = [a & b for a, b in combinations(verbs, 2) if len(a & b) > MOST]
    assert same == []


def test_a_second_list_is_seen() -> None:
    shared = ", ".join(f"a{n}: job.A{n} = ''" for n in range(MOST + 1))
    first, second = options_of(f"@x\ndef f(*, {shared}): ...\n@x\ndef g(*, {shared}, b: B): ...\n")
    assert len(first & second) > MOST
