"""Answers are asked for and read by question objects, never by a name in quotes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src/corral"
MAKERS = {"hosts/framing.py", "inspect/question.py", "apply/observation.py", "testing/emulated.py"}
"""Who makes an Inquiry. ``apply/observation`` asks resources, whose names are their ids."""
WORD = re.compile(r"\w+")
TEXTS = {"texts", "require", "answers", "sections"}
"""Methods and fields that hold texts by question."""


def is_texts(node: ast.expr | None) -> bool:
    """Whether an expression is texts by question."""
    if isinstance(node, ast.Call):
        function = node.func
        return isinstance(function, ast.Attribute) and (
            function.attr in TEXTS
            or (function.attr == "read" and "stdout" in ast.unparse(node) and len(node.args) == 1)
        )
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS
    return False


def named_texts(function: ast.AST) -> set[str]:
    """Names in a function that hold texts by question."""
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and node.annotation is not None:
            if {"Answers", "Sections"} & set(ast.unparse(node.annotation).split(" | ")):
                names.add(node.arg)
        elif isinstance(node, ast.Assign) and is_texts(node.value):
            names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return names


def literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def reads(tree: ast.AST) -> Iterator[int]:
    """Lines that read an answer by a name in quotes."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = named_texts(function)

        def held(node: ast.expr, names: set[str] = names) -> bool:
            return is_texts(node) or (isinstance(node, ast.Name) and node.id in names)

        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and literal(node.slice) and held(node.value):
                yield node.lineno
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                by_name = node.func.attr == "succeeded" or (
                    node.func.attr == "get" and held(node.func.value)
                )
                if by_name and literal(node.args[0]):
                    yield node.lineno
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                by_name = literal(node.left) and held(node.comparators[0])
                if by_name:
                    yield node.lineno


def makes(tree: ast.AST) -> Iterator[int]:
    """Lines that make an Inquiry."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Inquiry":
            yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        'x = answers["os"]',
        'x = answers.get("os", "")',
        'x = state.sections.get("os")',
        'x = asked.read(result.stdout)["os"]',
        'x = asked.read(result.stdout).texts()["os"]',
        'x = sections.require(names, node, what)["os"]',
        'x = sections.succeeded("os", node, what)',
        'x = "os" in state.sections',
        'x = "os" not in answers',
    ],
)
def test_a_read_by_a_name_is_seen(line: str) -> None:
    text = f"def f(answers: Answers):\n    {line}\n"
    assert list(reads(ast.parse(text))) == [2]
    assert not list(reads(ast.parse(text.replace('"os"', "OS.name"))))


def test_a_local_name_for_the_texts_is_seen() -> None:
    text = 'def f(s):\n    texts = s.texts()\n    return texts["os"]\n'
    assert list(reads(ast.parse(text))) == [3]


def test_answers_are_read_by_their_question() -> None:
    others = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if {"Inquiry", "Answers", "Sections", "sections"}
        & set(WORD.findall(text := path.read_text()))
        for line in reads(ast.parse(text))
    ]
    assert not others, "QUESTION.read(answers) takes the parsed value"


def test_inquiries_are_made_of_questions() -> None:
    assert list(makes(ast.parse('asked = framing.Inquiry({"x": sh("true")})'))) == [1]
    others = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if str(path.relative_to(SOURCE)) not in MAKERS
        for line in makes(ast.parse(path.read_text()))
    ]
    assert not others, "corral.inspect.question.inquiry takes questions"


def test_questions_are_made_without_a_type_in_brackets() -> None:
    """``Answer[int](...)`` sets an attribute that a frozen class with slots refuses (seen)."""
    places = [
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Subscript)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"Answer", "Question"}
    ]
    assert places == []
