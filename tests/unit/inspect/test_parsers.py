"""An answer is read by the parser of its question, and by nobody who takes its text apart.

What a parser gave is followed in ``test_values``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src/corral"
SHOWN, WORKS = "shown to people", "the exit status is the answer"
LOG, FILE = "a log, for the catalogue of failures", "a file, kept as it is or read by its own model"
PART = "a part of facts that its module reads together with other answers"
TEXTS = {
    "inspect/jobs.py": {"job_script": FILE, "submit_line": FILE},
    "inspect/machine.py": {"DRIVER": LOG, "KERNEL_LOG": LOG},
    "inspect/mesh.py": {"CONTAINER": PART, "STATUS": PART},
    "inspect/services.py": {"log": LOG, "log_file": LOG, "trusted_log": LOG},
    "inspect/slurm.py": {
        "ALL_UP": WORKS,
        "CLIENT": FILE,
        "COMMANDS_WORK": WORKS,
        "DATABASE_UP": WORKS,
        "NODE_LINES": SHOWN,
        "NODE_VERSIONS": SHOWN,
        "PYXIS": "whether there is any text is the answer",
        "UP": WORKS,
    },
    "prove/checks/access.py": {"_EXEMPT": "see READS_TEXT", "_USER": "see READS_TEXT"},
    "prove/checks/storage.py": {"_read": "a file that the check wrote: compared with it"},
}
"""Questions whose answer's value is its text, and what that is."""
READS_TEXT = {
    "doctor/machine_report.py": "logs are texts: which part of one counts depends on what its unit "
    "does, another answer",
    "prove/checks/access.py": "what sshd and pam_slurm_adopt print to a login that the check makes",
}
"""Modules that take texts apart, and why no parser does."""
CUTS = {"split", "rsplit", "splitlines", "partition", "rpartition", "startswith", "endswith"}
MATCHES = {"match", "fullmatch", "search", "findall", "finditer"}
LOADS = {"loads", "safe_load", "literal_eval", "reader", "int", "float"}
TAKES_APART = CUTS | MATCHES | LOADS
KEEPS = {"strip", "lstrip", "rstrip", "lower", "upper", "casefold", "removeprefix", "removesuffix"}
Functions = ast.FunctionDef | ast.AsyncFunctionDef
Names = Mapping[str, bool]
"""Questions by name: whether the answer's value is its text."""


def made(node: ast.AST) -> Iterator[bool]:
    """Whether a question that is made here has the text for its value."""
    for call in ast.walk(node):
        match call:
            case ast.Call(func=ast.Name(id="Question" | "Answer"), args=[_, *_, parse]):
                yield ast.unparse(parse) == "text"
            case _:
                pass


def questions(tree: ast.Module) -> dict[str, bool]:
    """The questions of a module by name: constants, and functions that make some."""
    matches: dict[str, bool] = {}
    for node in tree.body:
        texts = list(made(node))
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                matches |= {name: any(texts)} if texts else {}
            case ast.FunctionDef(name=name):
                matches |= {name: any(texts)} if texts else {}
            case _:
                pass
    return matches


def in_reach(tree: ast.Module, tables: Mapping[str, Names]) -> dict[str, bool]:
    """Questions by the name that a module has for them, ``machine.LOAD`` or ``LOAD``."""
    names: dict[str, bool] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if node.module == "corral.inspect":
                table = tables.get(alias.name, {})
                names |= {f"{alias.asname or alias.name}.{name}": t for name, t in table.items()}
            elif (node.module or "").startswith("corral.inspect."):
                table = tables.get((node.module or "").rpartition(".")[2], {})
                if alias.name in table:
                    names[alias.asname or alias.name] = table[alias.name]
    return names


def parsers_in_reach(tree: ast.Module) -> set[str]:
    """Functions of ``corral.inspect`` as a module calls them; rules and askers judge more."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("corral.inspect.")
        for alias in node.names
        if alias.name.islower()
    }


@dataclass
class Module:
    """One module, followed from where it reads texts to where it takes them apart."""

    names: Names
    parsers: set[str]
    functions: dict[str, Functions]
    lines: set[int] = field(default_factory=set[int])
    followed: set[tuple[str, frozenset[str]]] = field(
        default_factory=set[tuple[str, frozenset[str]]]
    )

    def named(self, node: ast.expr, *, texts: bool) -> bool:
        """Whether an expression is a question; with ``texts``, one whose value is its text."""
        name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
        return name in self.names and (self.names[name] or not texts)

    def is_read(self, call: ast.Call) -> bool:
        """Whether a call reads the text of an answer."""
        match call:
            case ast.Call(func=ast.Attribute(attr="text"), args=[question]):
                return self.named(question, texts=False)
            case ast.Call(func=ast.Attribute(attr="get"), args=[question]):
                return self.named(question, texts=True)
            case ast.Call(func=ast.Attribute(attr="read" | "read_or_empty", value=question)):
                return self.named(question, texts=True)
            case _:
                return False

    def is_text(self, node: ast.expr, held: set[str]) -> bool:
        """Whether an expression is the text of an answer, or holds one."""
        parts: list[ast.expr] = []
        match node:
            case ast.Call() if self.is_read(node):
                return True
            case ast.Name(id=name):
                return name in held
            case ast.Call(func=ast.Attribute(attr=attr, value=value)) if attr in KEEPS:
                parts = [value]
            case ast.FormattedValue(value=value) | ast.Subscript(value=value):
                parts = [value]
            case ast.BoolOp(values=values) | ast.JoinedStr(values=values):
                parts = values
            case ast.IfExp(body=body, orelse=other):
                parts = [body, other]
            case _:
                pass
        return any(self.is_text(part, held) for part in parts)

    def follow(self, function: Functions, given: frozenset[str] = frozenset()) -> None:
        """Note the lines of a function that take a text apart, those of whom it calls too."""
        if (function.name, given) in self.followed:
            return
        self.followed.add((function.name, given))
        held = set(given)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assigned(node.targets[0], node.value, held)
        for node in ast.walk(function):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                self._note(node, node.comparators, held)
            elif isinstance(node, ast.Call):
                self._called(node, held)

    def _assigned(self, target: ast.expr, value: ast.expr, held: set[str]) -> None:
        match target, value:
            case ast.Name(id=name), _ if self.is_text(value, held):
                held.add(name)
            case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                for each, part in zip(targets, values, strict=False):
                    self._assigned(each, part, held)
            case _:
                pass

    def _called(self, call: ast.Call, held: set[str]) -> None:
        name = ast.unparse(call.func).rpartition(".")[2]
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        if name in TAKES_APART or name in self.parsers:
            self._note(call, [*receiver, *call.args], held)
        elif isinstance(call.func, ast.Name) and name in self.functions:
            function = self.functions[name]
            parameters = [each.arg for each in function.args.args]
            texts = [
                p for p, a in zip(parameters, call.args, strict=False) if self.is_text(a, held)
            ]
            if texts:
                self.follow(function, frozenset(texts))

    def _note(self, node: ast.expr, parts: Iterable[ast.expr], held: set[str]) -> None:
        if any(self.is_text(part, held) for part in parts):
            self.lines.add(node.lineno)


def taken_apart(text: str, tables: Mapping[str, Names], *, inside: bool = False) -> list[int]:
    """Lines of a module that take an answer's text apart.

    Args:
        text: the module.
        tables: questions of the modules of ``corral.inspect``.
        inside: the module is one of these: what it reads of its own questions is its parser.
    """
    tree = ast.parse(text)
    own = {} if inside else questions(tree)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, Functions)}
    module = Module(in_reach(tree, tables) | own, parsers_in_reach(tree), functions)
    for function in functions.values():
        module.follow(function)
    return sorted(module.lines)


def tables() -> dict[str, dict[str, bool]]:
    files = sorted((SOURCE / "inspect").glob("*.py"))
    return {file.stem: questions(ast.parse(file.read_text())) for file in files}


PLAIN = {"thing": {"PLAIN": True, "TYPED": False, "plain": True}}


@pytest.mark.parametrize(
    "line",
    [
        "x = PLAIN.read(answers).splitlines()",
        "x = json.loads(state.text(TYPED))",
        "x = thing.PLAIN.read_or_empty(answers).strip().split()",
        "x = csv.reader(state.get(PLAIN))",
        "x = _WORD.fullmatch(state.get(PLAIN))",
        "x = float(state.text(PLAIN))",
        "x = parsed(state.text(TYPED))",
        "x = 'refused' in state.text(PLAIN)",
        "x = state.text(plain('a')).partition('b')",
        "x = helper(PLAIN.read(answers))",
    ],
)
def test_a_text_that_is_taken_apart_is_seen(line: str) -> None:
    head = (
        "from corral.inspect import thing\n"
        "from corral.inspect.thing import PLAIN, TYPED, plain, parsed\n"
    )
    helper = "def helper(x):\n    y = x.strip()\n    return y.split()\n"
    assert taken_apart(f"{head}{helper}def f():\n    {line}\n", PLAIN)


@pytest.mark.parametrize(
    "line",
    [
        "x = clip(state.text(TYPED))",
        "x = state.text(PLAIN) or 'none'",
        "x = row.text(key).split()",
    ],
)
def test_a_value_and_a_text_that_is_shown_are_not(line: str) -> None:
    head = "from corral.inspect.thing import PLAIN, TYPED\n"
    assert not taken_apart(f"{head}def f():\n    {line}\n", PLAIN)


def test_the_table_of_questions_is_found() -> None:
    matches = tables()
    assert matches["nvidia"]["CARDS"] is False
    assert matches["services"]["log"] is True
    assert sum(map(len, matches.values())) > 70


def test_an_answer_that_is_its_text_has_a_reason() -> None:
    matches = {
        str(path.relative_to(SOURCE)): {name for name, is_text in own.items() if is_text}
        for path in sorted(SOURCE.rglob("*.py"))
        if (own := questions(ast.parse(path.read_text()))) and any(own.values())
    }
    assert matches == {name: set(reasons) for name, reasons in TEXTS.items()}


def test_answers_are_parsed_next_to_their_question() -> None:
    table = tables()
    places = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if "inspect" in (text := path.read_text())
        if (lines := taken_apart(text, table, inside=path.parent.name == "inspect"))
    }
    assert set(places) == set(READS_TEXT), places
