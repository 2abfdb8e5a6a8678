"""The header of each program for nodes names those modules of Corral that send or install it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile

import pytest

from corral.agents import FOLDER, LABELS
from corral.cli.main import VERBS
from corral.jobs.submit import LIBRARY
from tests.unit.agents.test_agents import PROGRAMS, SERVICES, file_of

SOURCE = FOLDER.parent
READERS = frozenset(
    {"program", "shipped", "filled", "piece", "call", "defined", "functions", "joinpath"}
)
"""Functions whose first argument is a program's path below ``agents``."""
TEXTS = {
    name: (FOLDER / name).read_text()
    for name in (*PROGRAMS, *(f"../{library}" for library in LIBRARY))
}
FOLDERS = frozenset(name.rpartition("/")[0] for name in PROGRAMS) - {""}
GROUP = re.compile(r"\(([a-z_]+(?:/[a-z_]+)+(?:, [a-z_]+(?:/[a-z_]+)+)*)\)")
"""Modules in brackets, by their paths below ``src/corral``."""
VERB = re.compile(rf"\bcorral (?:{'|'.join(VERBS)})\b")


def header_of(text: str) -> str:
    """The comment at the top, from the first label on, as one line."""
    head = takewhile(lambda line: line.startswith("#"), text.splitlines())
    words = " ".join(line.lstrip("# ") for line in head)
    return words[words.find(LABELS[0]) :]


def named(header: str) -> set[str]:
    return {module for group in GROUP.findall(header) for module in group.split(", ")}


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


def senders() -> dict[str, set[str]]:
    """Modules, by each program that they send or install, their own or another module's text."""
    modules = {
        path.relative_to(SOURCE).with_suffix("").as_posix().removesuffix("/__init__"): path
        for path in SOURCE.rglob("*.py")
        if FOLDER not in path.parents
    }
    texts = {module: path.read_text() for module, path in modules.items()}
    trees = {module: ast.parse(text) for module, text in texts.items()}
    kept = {
        module: handed_on(tree, PROGRAMS)
        for module, tree in trees.items()
        if "program(" in texts[module] or "agents.FOLDER" in texts[module]
    }
    result: dict[str, set[str]] = {name: set() for name in TEXTS}
    for module, text in texts.items():
        sent = sent_by(text, PROGRAMS)
        for place, used in taken(trees[module]):
            own = kept.get(place, {}).get(used, set[str]())
            folders = {name.rpartition("/")[0] for name in own if f"{used}.parent" in text}
            sent |= own | {name for name in PROGRAMS if name.rpartition("/")[0] in folders}
        sent |= {f"../{name}" for name in strings(trees[module]) & set(LIBRARY)}
        for name in sent:
            result[name].add(module)
    return result


SENDERS = senders()


def test_each_header_names_the_modules_that_send_it_and_no_others() -> None:
    wrong = {
        path: f"({', '.join(sorted(modules))})"
        for path, modules in SENDERS.items()
        if named(header_of(TEXTS[path])) != modules
    }
    assert not wrong, wrong


def test_what_no_module_sends_is_included_by_a_program() -> None:
    included = set(re.findall(r"^\. (\S+) #include$", "\n".join(TEXTS.values()), re.MULTILINE))
    assert {name for name, modules in SENDERS.items() if not modules} <= included


def test_no_header_names_verbs() -> None:
    """Which verbs reach a module changes without a change of the program."""
    services = {module: file_of(module).read_text() for module in SERVICES}
    headers = {name: header_of(text) for name, text in (TEXTS | services).items()}
    assert not [name for name, header in headers.items() if VERB.search(header)]


def test_top_level_modules_that_jobs_get_are_among_them() -> None:
    assert SENDERS["../shards.py"] == {"jobs/datasets", "jobs/submit"}
    assert {SENDERS[f"../{name}"] >= {"jobs/submit"} for name in LIBRARY} == {True}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ('call("a.sh", "f")', {"a.sh"}),
        ('_PROGRAM = "b/c.sh"', {"b/c.sh"}),
        ('program(f"b/{name}")', {"b/c.sh", "b/d.sh"}),
        ('NAMES = ("d.sh",)\nprogram(f"b/{name}")', {"b/d.sh"}),
        ('shipped(f"b/{name}.sh")', {"b/c.sh", "b/d.sh"}),
        ('other(f"b/{name}")', set[str]()),
        ('"""As a.sh does."""', set[str]()),
    ],
)
def test_programs_are_found_however_their_names_are_written(text: str, sent: set[str]) -> None:
    assert sent_by(text, ["a.sh", "b/c.sh", "b/d.sh"]) == sent


def test_headers_are_read_over_several_lines() -> None:
    header = header_of(
        "#!/bin/sh\n# (api/a)\n# Installed as: x (api/b,\n# api/c)\n# (no module)\nx"
    )
    assert named(header) == {"api/b", "api/c"}
