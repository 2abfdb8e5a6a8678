"""Each package of others that the source imports is declared in pyproject.toml.

Tests of the wheel have the development environment's packages, so that one that is not declared
would be missed by nobody but a user.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

IMPORTERS = {"import_module", "find_spec", "__import__"}
UNDECLARED = {
    # One of three places of a cloud's key.
    "keyring": ("corral/providers/cloud/client/secrets.py",),
    # Of the job's environment: these files are sent with jobs.
    "lmdb": ("corral/samples.py",),
    "torch": ("corral/agents/", "corral/checkpoint.py"),
    # Programs next to the one that imports them, on nodes.
    "halves": ("corral/agents/benchmarks/",),
    "rendezvous": ("corral/agents/benchmarks/",),
    "scaling_plan": ("corral/agents/benchmarks/",),
}
"""What is not installed with Corral, and where alone it is imported."""
NAMES = {"compression": "backports.zstd"}
"""Modules that a later Python has in place of a package."""


def imported(text: str) -> Iterator[str]:
    """Top-level names of modules that a text imports, wherever in it, also by ``import_module``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in IMPORTERS and isinstance(node.args[0].value, str):
                yield node.args[0].value.partition(".")[0]


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def declared(repo: Path) -> set[str]:
    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return {normal(re.split(r"[<>=\[; ]", line)[0]) for lines in lists for line in lines}


@pytest.fixture(scope="module")
def imports(repo: Path) -> list[tuple[str, str]]:
    return imports_of(repo)


def imports_of(repo: Path) -> list[tuple[str, str]]:
    """Files of the source, each with a module of others that it imports."""
    own = {*sys.stdlib_module_names, "corral", "_typeshed"}  # the last is the type checkers' own
    return [
        (str(file.relative_to(repo / "src")), name)
        for file in sorted((repo / "src").rglob("*.py"))
        for name in {*imported(file.read_text())} - own
    ]


def undeclared(imports: list[tuple[str, str]], packages: set[str]) -> list[str]:
    """Imports whose package is not declared."""
    of_module = packages_distributions()
    wrong = []
    for file, name in imports:
        names = {normal(each) for each in [NAMES.get(name, name), *of_module.get(name, ())]}
        if not names & packages and not file.startswith(UNDECLARED.get(name, "-")):
            wrong.append(f"{file}: {name}")
    return wrong


def test_each_imported_package_is_declared(repo: Path, imports: list[tuple[str, str]]) -> None:
    assert undeclared(imports, declared(repo)) == []


@pytest.mark.parametrize("module", ["starlette", "h11", "markupsafe", "jsonschema", "httpx"])
def test_a_package_that_is_not_declared_is_seen(
    module: str, repo: Path, imports: list[tuple[str, str]]
) -> None:
    """The first four came only with other packages, or with those of the tests."""
    wrong = undeclared(imports, declared(repo) - {module})
    assert wrong
    assert all(line.endswith(f": {module}") for line in wrong)


def test_lazy_imports_are_seen() -> None:
    text = "import b.c\nfrom d import e\ndef a():\n    import_module('f.g')\n    from . import h"
    assert [*imported(text)] == ["b", "d", "f"]
    assert undeclared([("corral/x.py", "torch")], set()) == ["corral/x.py: torch"]


def test_each_exception_is_one(imports: list[tuple[str, str]]) -> None:
    for name, places in UNDECLARED.items():
        for place in places:
            assert any(file.startswith(place) and name == each for file, each in imports), place
