"""Which programs for nodes a module of Corral reads, also by another module's function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from corral.agents import FOLDER
from tests.unit.agents.test_agents import PROGRAMS

SOURCE = FOLDER.parent
READERS = frozenset(
    {"program", "shipped", "filled", "piece", "call", "defined", "functions", "joinpath"}
)
"""Functions whose first argument is a program's path below ``agents``."""
FOLDERS = frozenset(name.rpartition("/")[0] for name in PROGRAMS) - {""}


def strings(tree: ast.AST) -> set[str]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str)}


def patterns(tree: ast.AST) -> Iterator[re.Pattern[str]]:
    """Paths of programs that are put together where one is read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.JoinedStr):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = node.func.id if isinstance(node.func, ast.Name) else name
            parts = [
                re.escape(f"{part.value}") if isinstance(part, ast.Constant) else "(.+)"
                for part in node.args[0].values
            ]
            if name in READERS and parts != ["(.+)"]:
                yield re.compile("".join(parts))


def sent_by(text: str, programs: list[str]) -> set[str]:
    """Programs that a module of Corral's reads, by name, by parts of a name or by their folder."""
    tree = ast.parse(text)
    texts = strings(tree)
    sent = texts & set(programs)
    for pattern in patterns(tree):
        matches = {name: m for name in programs if (m := pattern.fullmatch(name))}
        chosen = {name for name, match in matches.items() if match[1] in texts}
        sent |= chosen or set(matches)
    if "agents.FOLDER" in text:
        sent |= {name for name in programs if name.rpartition("/")[0] in texts & FOLDERS}
    return sent


def handed_on(tree: ast.Module, programs: list[str]) -> dict[str, set[str]]:
    """Functions and constants at a module's top that are a program's own text or path."""
    result: dict[str, set[str]] = {}
    for node in tree.body:
        names = [node.name] if isinstance(node, ast.FunctionDef) else []
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        text = ast.unparse(node) if names else ""
        if re.search(r"\bprogram\('|\bagents\.FOLDER /", text):
            result[names[0]] = sent_by(text, programs)
    return {name: sent for name, sent in result.items() if sent}


def taken(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of other modules of Corral's that a module uses: (module, name)."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}".startswith("corral"):
            above = f"{node.module}".removeprefix("corral").strip(".").replace(".", "/")
            for alias in node.names:
                yield above, alias.name
                modules[alias.asname or alias.name] = f"{above}/{alias.name}".strip("/")
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=local)) if local in modules:
                yield modules[local], node.attr
            case _:
                pass


def modules() -> dict[str, Path]:
    """Corral's modules, but the programs, by their paths below ``src/corral``."""
    return {
        path.relative_to(SOURCE).with_suffix("").as_posix().removesuffix("/__init__"): path
        for path in SOURCE.rglob("*.py")
        if FOLDER not in path.parents
    }


@cache
def kept() -> Mapping[str, Mapping[str, set[str]]]:
    """What each module hands on to others: see ``handed_on``."""
    texts = {module: path.read_text() for module, path in modules().items()}
    return {
        module: handed_on(ast.parse(text), PROGRAMS)
        for module, text in texts.items()
        if "program(" in text or "agents.FOLDER" in text
    }
