"""What a parser gave is used as it is: no reader takes a word of it apart again.

``test_parsers`` follows texts. Here values are followed by their types, which parsers, questions
and dataclasses declare: to each word in them, wherever a module reads it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import types
import typing
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from corral.inspect.question import Answer, Question
from tests.unit.inspect.test_parsers import CUTS, LOADS, MATCHES

SOURCE = Path(__file__).parents[3] / "src/corral"
ROOMS = (
    *(f"corral.inspect.{name}" for name in ("machine", "services", "slurm", "storage", "network")),
    *(f"corral.inspect.{name}" for name in ("nvidia", "gpu", "rules")),
    "corral.state.storage.job_folders",
)
"""Whose dataclasses hold what machines answered, wherever they come from.

Slurm's records are models of ``corral.slurm``: their texts are read by what that room has for them.
"""
SHOWN = {"printed", "shown", "error", "text", "hint"}
"""Fields that are for people."""
WORDS: dict[str, str] = {}
"""Modules that take a word apart, and why no parser does."""
STRINGS: dict[Any, Any] = {
    str.strip: str,
    str.lower: str,
    str.split: list[str],
    str.splitlines: list[str],
}
GO_ON = {"list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "filter", "dict"}
SAME = {"strip", "lstrip", "rstrip", "lower", "upper", "casefold", "removeprefix", "removesuffix"}
Functions = ast.FunctionDef | ast.AsyncFunctionDef


@dataclasses.dataclass(frozen=True)
class Value:
    """What an expression is: its type, and whether a machine answered it."""

    type: Any
    answered: bool = False


UNKNOWN = Value(None)


def hints(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing)
    except (NameError, TypeError, AttributeError):
        return {}


def real(kind: Any) -> Any:
    """A type without None."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        return kinds[0] if len(kinds) == 1 else None
    return kind


def type_of(thing: Any) -> Any:
    """The type of a question's value; None for anything else."""
    if isinstance(thing, Question | Answer):
        parse: Any = thing.parse
        return STRINGS.get(parse) or hints(parse).get("return")
    kind = hints(thing).get("return") if inspect.isfunction(thing) else None
    if typing.get_origin(kind) in (Question, Answer):
        return typing.get_args(kind)[0]
    return None


def element(kind: Any, at: int | None = None) -> Any:
    """What a value holds: of a dict its keys."""
    args = [each for each in typing.get_args(kind) if each is not Ellipsis]
    origin = typing.get_origin(kind)
    if origin is tuple and at is not None and len(args) > at:
        return args[at]
    return args[0] if args and origin not in (None, type) else None


def attribute(value: Value, name: str) -> Value:
    """A field or a property."""
    kind = value.type if isinstance(value.type, type) else typing.get_origin(value.type)
    if not isinstance(kind, type):
        return UNKNOWN
    member = inspect.getattr_static(kind, name, None)
    if isinstance(member, property) and member.fget:
        declared = hints(member.fget).get("return")
    elif isinstance(member, cached_property):
        declared = hints(member.func).get("return")
    else:
        declared = hints(kind).get(name)
    room = kind.__module__ in ROOMS and dataclasses.is_dataclass(kind)
    return Value(real(declared), room and name not in SHOWN)


@dataclasses.dataclass
class Scene:
    """A module: its functions, the lines that take words apart, and what was followed."""

    module: Any
    functions: dict[str, Functions]
    lines: set[int]
    followed: set[tuple[str, frozenset[str]]]


class Reader:
    """One function, followed from what it reads."""

    def __init__(
        self, scene: Scene, function: Functions, own: Any, answered: frozenset[str] = frozenset()
    ) -> None:
        self.scene = scene
        self.module = module = scene.module
        self.held: dict[str, Value] = {}
        self.lines = scene.lines
        given = hints(getattr(own, function.name, None) if own else vars(module).get(function.name))
        if own is not None:
            self.held["self"] = Value(own)
        for each in (*function.args.args, *function.args.kwonlyargs):
            if each.arg in given:
                self.held[each.arg] = Value(real(given[each.arg]), each.arg in answered)
        for _ in range(2):  # a name may be read above the line that gives it
            for node in ast.walk(function):
                self.bind(node)
        for node in ast.walk(function):
            self.judge(node)
            if isinstance(node, ast.Call):
                self.follow(node)

    def follow(self, call: ast.Call) -> None:
        """A function of the module that is given what a machine answered."""
        function = self.scene.functions.get(ast.unparse(call.func))
        if function is None:
            return
        names = [each.arg for each in function.args.args]
        given = [*zip(names, call.args, strict=False)]
        given += [(word.arg, word.value) for word in call.keywords if word.arg]
        answered = frozenset(name for name, value in given if self.value(value).answered)
        if answered and (function.name, answered) not in self.scene.followed:
            self.scene.followed.add((function.name, answered))
            Reader(self.scene, function, None, answered)

    def thing(self, node: ast.expr) -> Any:
        """What a name of the module stands for."""
        match node:
            case ast.Name(id=name) if name not in self.held:
                return vars(self.module).get(name)
            case ast.Attribute(value=value, attr=attr):
                base = self.thing(value)
                return getattr(base, attr, None) if inspect.ismodule(base) else None
            case ast.Call(func=func):
                made = self.thing(func)
                return made if type_of(made) is not None else None
            case _:
                return None

    def question(self, node: ast.expr) -> Any:
        return type_of(self.thing(node))

    def value(self, node: ast.expr) -> Value:  # noqa: PLR0911
        match node:
            case ast.Name(id=name):
                return self.held.get(name, UNKNOWN)
            case ast.Attribute(value=value, attr=attr):
                return attribute(self.value(value), attr)
            case ast.BoolOp(values=[first, *_]) | ast.IfExp(body=first):
                return self.value(first)
            case ast.NamedExpr(value=first) | ast.Await(value=first) | ast.Starred(value=first):
                return self.value(first)
            case ast.Subscript(value=value, slice=at):
                return self.part(self.value(value), at)
            case ast.Call():
                return self.result(node)
            case ast.DictComp(key=key, value=held):
                first, second = self.value(key), self.value(held)
                return Value(dict[first.type or Any, second.type or Any], second.answered)
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                inner = self.value(part)
                return Value(list[inner.type or Any], inner.answered)
            case _:
                return UNKNOWN

    def part(self, base: Value, at: ast.expr) -> Value:
        if base.type is str or isinstance(at, ast.Slice):
            return base
        if issubclass(typing.get_origin(base.type) or int, typing.Mapping):
            return Value(real(typing.get_args(base.type)[1]), base.answered)
        number = at.value if isinstance(at, ast.Constant) and isinstance(at.value, int) else None
        return Value(real(element(base.type, number)), base.answered)

    def result(self, call: ast.Call) -> Value:  # noqa: PLR0911
        match call:
            case ast.Call(func=ast.Attribute(attr="get" | "by_key"), args=[question]) if (
                kind := self.question(question)
            ):
                return Value(real(kind), answered=True)
            case ast.Call(
                func=ast.Attribute(attr="read" | "read_or_empty" | "parse", value=question)
            ) if kind := self.question(question):
                return Value(real(kind), answered=True)
            case ast.Call(func=ast.Attribute(attr=attr, value=value)):
                return self.method(self.value(value), attr)
            case ast.Call(func=ast.Name(id="next"), args=[first, *_]):
                return self.item(first)
            case ast.Call(func=ast.Name(id=name), args=[*_, last]) if name in GO_ON:
                return self.value(last)
            case ast.Call(func=func):
                made = self.thing(func)
                kind = hints(made).get("return") if inspect.isfunction(made) else None
                return Value(made if isinstance(made, type) else real(kind))
            case _:
                return UNKNOWN

    def method(self, base: Value, name: str) -> Value:
        args = typing.get_args(base.type)
        if base.type is str:
            return base if name in SAME else UNKNOWN
        if len(args) == 2 and name in ("get", "pop", "values", "items", "keys"):
            key, value = args
            kinds = {"values": tuple[value, ...], "items": list[tuple[key, value]]}  # type: ignore[valid-type]
            kinds |= {"keys": tuple[key, ...]}  # type: ignore[valid-type]
            return Value(kinds.get(name, real(value)), base.answered)
        # What a method of a model gives is the model's own word.
        kind = base.type if isinstance(base.type, type) else None
        return Value(real(hints(getattr(kind, name, None)).get("return")))

    def item(self, node: ast.expr) -> Value:
        """What comes out of an iteration."""
        if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
            return self.value(node.elt)
        base = self.value(node)
        if base.type is None and isinstance(node, ast.Tuple):
            return next((each for x in node.elts if (each := self.value(x)).answered), UNKNOWN)
        return Value(real(element(base.type)), base.answered)

    def bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self.give(target, self.value(value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.give(target, self.value(value))
            case ast.NamedExpr(target=target, value=value):
                self.give(target, self.value(value))
            case (
                ast.For(target=target, iter=several)
                | ast.comprehension(target=target, iter=several)
            ):
                self.give(target, self.item(several))
            case _:
                pass

    def give(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name) if value.type is not None:
                if not self.held.get(name, UNKNOWN).answered:
                    self.held[name] = value
            case ast.Tuple(elts=parts):
                for at, part in enumerate(parts):
                    self.give(part, Value(real(element(value.type, at)), value.answered))
            case _:
                pass

    def word(self, node: ast.expr) -> bool:
        """A text that a machine answered."""
        value = self.value(node)
        return value.answered and value.type is str

    def judge(self, node: ast.AST) -> None:
        match node:
            case ast.Subscript(value=value):
                parts = [value]
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=parts):
                pass
            case ast.Call(func=ast.Attribute(attr=attr, value=value), args=args) if attr in (
                CUTS | MATCHES | LOADS
            ):
                parts = [value, *args]
            case ast.Call(func=ast.Name(id=name), args=args) if name in MATCHES | LOADS:
                parts = args
            case _:
                return
        if any(self.word(part) for part in parts):
            self.lines.add(getattr(node, "lineno", 0))


def functions(tree: ast.Module, module: Any) -> Iterator[tuple[Functions, Any]]:
    """The functions of a module, methods with their class."""
    for node in tree.body:
        if isinstance(node, Functions):
            yield node, None
        elif isinstance(node, ast.ClassDef):
            own = vars(module).get(node.name)
            yield from ((each, own) for each in node.body if isinstance(each, Functions))


def taken_apart(text: str, module: Any, left_out: Collection[str] = ()) -> list[int]:
    """Lines of a module that take apart a word of what a machine answered."""
    tree = ast.parse(text)
    own = {each.name: each for each in tree.body if isinstance(each, Functions)}
    kept = {name: each for name, each in own.items() if name not in left_out}
    scene = Scene(module, kept, set(), set())
    for function, of in functions(tree, module):
        # Methods of the dataclasses that parsers make are part of them.
        if function.name not in left_out and not (left_out and of):
            Reader(scene, function, of)
    return sorted(scene.lines)


def parsers(module: Any) -> set[str]:
    """Functions of a module of ``corral.inspect`` that take a text: its parsers and their parts."""
    return {
        name
        for name, thing in vars(module).items()
        if inspect.isfunction(thing)
        and thing.__module__ == module.__name__
        and any(kind is str for key, kind in hints(thing).items() if key != "return")
    }


HEAD = """\
import re
from corral.inspect import machine, slurm, storage
from corral.inspect.machine import NAMES, PORTS, USER_NAMESPACES, OPEN_KEYS, names
from corral.inspect.question import MachineState
from corral.inspect.rules import NameProblem, name_problems
from corral.inspect.services import UNITS
from corral.inspect.storage import MOUNT_SOURCES, READ_ONLY, SAME_FOLDERS
from corral.doctor.machine_report import MachineReport
from corral.doctor.probes import Scene
"""


def seen(line: str) -> list[int]:
    text = f"{HEAD}def helper(x: list[str]):\n    return [each.split() for each in x]\n"
    text += "def f(state: MachineState, scene: Scene, report: MachineReport, answers):\n"
    text += "".join(f"    {each}\n" for each in line.split("\n"))
    module = types.ModuleType("read")
    exec(compile(text, "read", "exec"), vars(module))  # noqa: S102
    return taken_apart(text, module)


@pytest.mark.parametrize(
    "line",
    [
        "x = state.by_key(MOUNT_SOURCES)['/a'].partition(':')",
        "for path, source in state.by_key(MOUNT_SOURCES).items():\n    x = source.split(':')",
        "x = [path.rpartition('/') for path in state.by_key(MOUNT_SOURCES)]",
        "x = (state.get(MOUNT_SOURCES) or {}).get('/a', '').startswith('s')",
        "for line in state.get(READ_ONLY) or ():\n    if ' belongs to ' in line:\n        pass",
        "x = {line.split()[0] for line in storage.READ_ONLY.read(answers)}",
        "x = next(iter(state.get(OPEN_KEYS)))[1:]",
        "x = re.match('a', state.by_key(UNITS)['slurmd'].state)",
        "x = report.units['slurmd'].state.split()",
        "x = [m.units['a'].state[:3] for m in scene.answered]",
        "for p in name_problems(state, (), {}):\n    x = p.addresses[0].startswith('127.')",
        "x = slurm.PING.read(answers).split()",
        "x = machine.NAMES.name\ny = str.split\nx = slurm.STATE.read(answers).owner.split()",
        "x = float(slurm.PING.read(answers))",
        "y = {m.node: m.by_key(MOUNT_SOURCES) for m in scene.answered}\n"
        "x = [source.split() for each in y.values() for source in each.values()]",
        "x = (state.get(USER_NAMESPACES) or '').splitlines()",
        "x = helper(state.get(READ_ONLY) or ())",
    ],
)
def test_a_word_that_is_taken_apart_is_seen(line: str) -> None:
    assert seen(line)


@pytest.mark.parametrize(
    "line",
    [
        "x = '/a' in state.by_key(MOUNT_SOURCES)",
        "x = [a for a in state.get(READ_ONLY) or () if a not in (state.get(SAME_FOLDERS) or ())]",
        "x = (state.get(READ_ONLY) or [])[0]",
        "x = state.by_key(UNITS)['slurmd'].shown.splitlines()",
        "x = state.by_key(NAMES)['a'].addresses[0].is_loopback",
        "x = state.node.split('-')",
        "x = slurm.PING.read(answers).strip()",
        "x = helper(state.node.split('-'))",
    ],
)
def test_a_word_that_is_used_as_it_is_is_not(line: str) -> None:
    assert not seen(line)


def test_all_questions_have_a_type() -> None:
    """Else none of their values is followed."""
    untyped = {
        f"{module.__name__}.{name}"
        for path in sorted((SOURCE / "inspect").glob("[a-z]*.py"))
        for module in [importlib.import_module(f"corral.inspect.{path.stem}")]
        for name, thing in vars(module).items()
        if isinstance(thing, Question | Answer) and type_of(thing) is None
    }
    assert untyped == set()


def test_words_of_answers_are_taken_apart_by_parsers_alone() -> None:
    places: dict[str, list[int]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        text = path.read_text()
        if "inspect" not in text or name.startswith(("agents/", "testing/")):
            continue
        module = importlib.import_module("corral." + name.removesuffix(".py").replace("/", "."))
        inside = path.parent.name == "inspect"
        if lines := taken_apart(text, module, parsers(module) if inside else ()):
            places[name] = lines
    assert set(places) == set(WORDS), places
