"""Docstrings that repeat a name are deleted: pyproject requires none of functions and methods."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks", "examples", ".ci")
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
MOST = 5
"""Functions with the same docstring of one line."""
ENDINGS = ("ing", "ed", "es", "s", "e")
# These words add nothing to a name.
EMPTY = frozenset({"a", "an", "the", "of", "it", "its", "itself", "this", "that"})


def stem(word: str) -> str:
    """Without plural and verb endings, in lower case."""
    word = word.lower()
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def stems(text: str) -> set[str]:
    return {stem(word) for word in WORD.findall(text) if word.lower() not in EMPTY}


def returned(node: ast.AST) -> set[str]:
    """Stems of the text that is all that a function returns."""
    match node:
        case ast.FunctionDef(body=[_, ast.Return(value=ast.Constant(value=str() as text))]):
            return stems(text)
        case _:
            return set()


def repeats(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, names: set[str]
) -> bool:
    """Whether a docstring of one line is one word, or has no word beyond the names."""
    text = (ast.get_docstring(node) or "").strip()
    if not text or "\n" in text:
        return False
    return not re.search(r"\s", text) or stems(text) <= names | returned(node)


def reported(file: str, text: str) -> Iterator[str]:
    """Docstrings of a file that repeat the name of their object, its class or module."""
    path = Path(file)
    module = stems(path.parent.name if path.stem == "__init__" else path.stem)

    def below(node: ast.AST, names: set[str]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from below(child, names)
                continue
            own = names | stems(child.name)
            if repeats(child, own):
                yield f"{file}:{child.body[0].lineno}: {child.name}: {ast.get_docstring(child)}"
            yield from below(child, own if isinstance(child, ast.ClassDef) else names)

    tree = ast.parse(text)
    if repeats(tree, module):
        yield f"{file}:1: {path.stem}: {ast.get_docstring(tree)}"
    yield from below(tree, module)


def test_no_docstring_repeats_a_name() -> None:
    files = sorted(f for folder in FOLDERS for f in (REPO / folder).rglob("*.py"))
    ours = [str(f.relative_to(REPO)) for f in files if "corpora" not in f.parts]
    assert [line for f in ours for line in reported(f, (REPO / f).read_text())] == []


def shared(texts: Iterable[str]) -> dict[str, int]:
    """Docstrings of one line that more functions have than one text can describe."""
    docs = Counter(
        ast.get_docstring(node) or ""
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return {doc: n for doc, n in docs.items() if n > MOST and doc and "\n" not in doc}


def test_no_docstring_is_that_of_many_functions() -> None:
    """39 methods as_dict had "JSON-ready fields.", which holds for each of them."""
    assert shared(f.read_text() for f in (REPO / "src").rglob("*.py")) == {}
    text = 'def a():\n    """JSON-ready."""\n'
    assert shared([text] * (MOST + 1)) == {"JSON-ready.": MOST + 1}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("smoke.py", 'def nodes():\n    """smoke.nodes."""\n    return 1\n'),
        ("launch.py", 'def launch():\n    """smoke.launch."""\n    return 1\n'),
        ("a.py", 'def id():\n    """``packages:slurm``."""\n    return b\n'),
        ("a.py", 'def id():\n    """The hosts."""\n    return "hosts"\n'),
        ("a.py", 'def leftovers():\n    """Nothing."""\n    return []\n'),
        ("a.py", 'class Slurm:\n    """Slurm itself."""\n'),
        ("a.py", 'class Column:\n    """A column."""\n'),
        ("a.py", 'class Packages:\n    def names(self):\n        """Package names."""\n'),
        ("a.py", 'async def retire_keys():\n    """Retired keys."""\n'),
        ("heat_map.py", '"""The heat map."""\n'),
        ("table/__init__.py", '"""Tables."""\n'),
    ],
)
def test_a_docstring_that_repeats_a_name_is_reported(file: str, text: str) -> None:
    assert list(reported(file, text))


@pytest.mark.parametrize(
    "text",
    [
        'def leftovers():\n    """Nothing: the machines are the user\'s."""\n',
        'def nodes():\n    """Nodes.\n\n    Raises:\n        CorralError: none.\n    """\n',
        'def nodes():\n    return "nodes"\n',
    ],
)
def test_a_docstring_that_adds_something_is_not_reported(text: str) -> None:
    assert list(reported("a.py", text)) == []


SOURCE = REPO / "src/corral"
MODULE = re.compile(r"``(?:corral\.)?([a-z_]+(?:\.[A-Za-z_]+)+)``")
NO_MODULES = {"ssh.jump", "ssh.direct", "slurm.conf.old"}
"""Fields of the cluster file or of a machine, and a file."""


def places() -> dict[str, list[Path]]:
    """Modules and packages by the ends of their dotted names."""
    every: dict[str, list[Path]] = {}
    for path in SOURCE.rglob("*"):
        if path.is_dir() or path.suffix in {".py", ".pyi"}:
            parts = path.relative_to(SOURCE).with_suffix("").parts
            for start in range(len(parts)):
                every.setdefault(".".join(parts[start:]), []).append(path)
    return every


def has(path: Path, name: str) -> bool:
    """Whether a module, or a package's own module, names something."""
    files = [*path.glob("__init__.py*")] if path.is_dir() else [path]
    return any(re.search(rf"\b{name}\b", file.read_text()) for file in files)


def lost_modules(text: str) -> list[str]:
    """Names of modules, or of something in one, that are not there."""
    every = places()
    rooms = {name for name, paths in every.items() if any(path.is_dir() for path in paths)}
    lost: list[str] = []
    for name in MODULE.findall(text):
        module, _, last = name.rpartition(".")
        if name.partition(".")[0] not in rooms or name in every or name in NO_MODULES:
            continue
        if not any(has(path, last) for path in every.get(module, [])):
            lost.append(name)
    return lost


def test_a_module_that_is_not_there_is_seen() -> None:
    text = "``cloud.answers``, ``cloud.response``, ``client.accounts.change``, ``corral.api.nil``"
    assert lost_modules(text) == ["cloud.answers", "api.nil"]


def test_modules_named_in_docstrings_are_there() -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = {
        str(file.relative_to(SOURCE)): "\n".join(
            ast.get_docstring(node) or ""
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, kinds)
        )
        for file in sorted(SOURCE.rglob("*.py"))
    }
    named = "\n".join(texts.values())
    lost = lost_modules(named)
    assert not lost, [file for file, text in texts.items() if any(name in text for name in lost)]
