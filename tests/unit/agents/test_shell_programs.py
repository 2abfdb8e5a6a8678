"""Programs for nodes are files of ``agents``: no module holds one in a string."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType

import pytest

from corral import agents
from corral.agents import FOLDER
from corral.spec.providers import REGISTRY

SOURCE = FOLDER.parent
MOST = 3
"""Commands that a module may join: one with its guard and its fallback (CONTRIBUTING.md, 0102)."""

_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\{\w*\}|#[^\n]*(?=\n|$)")
_COMPOUND = re.compile(
    r"(?:^|[;&|({\n]|\b(?:then|do|else)\b|!)\s*(?:for \w+ in\b|while\b|until\b|if\b|case\b)"
    r"|(?:^|[;{\n])\s*\w+\(\)\s*[{(]"
)
_ENDS = re.compile(r"\b(?:done|fi|esac)\b|\w\(\)\s*[{(]")
_REDIRECTED = re.compile(r"\d*[<>]+&?\s*[-\w/.]+")
_BETWEEN = re.compile(r";;?|&&|\|\||\n|\bthen\b|\bdo\b|\belse\b")


def plain(text: str) -> str:
    """The shell text without what is quoted, Script fields and comments."""
    return _QUOTED.sub("", text.replace("{{", "{").replace("}}", "}"))


def commands(text: str) -> int:
    return sum(
        bool(re.search(r"[\w\[:.]", part))
        for part in _BETWEEN.split(_REDIRECTED.sub("", plain(text)))
    )


def is_compound(text: str) -> bool:
    """A loop, a branch or a function."""
    bare = plain(text)
    return bool(_COMPOUND.search(bare) and _ENDS.search(bare))


def is_program(text: str) -> bool:
    """A loop, a branch, a function, or more commands than one with its guard and fallback."""
    return is_compound(text) or commands(text) > MOST


def named(tree: ast.AST) -> dict[str, ast.expr]:
    """What each name of a module or a function in it is set to, the last one."""
    return {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def literals(node: ast.expr, names: Mapping[str, ast.expr], depth: int = 9) -> list[str]:
    """Texts that an expression may be, as far as they are written in Corral's modules."""
    match node:
        case ast.Constant(value=str(text)):
            parts = [[text]]
        case ast.JoinedStr(values=values):
            parts = [literals(value, names, depth) for value in values]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            parts = [literals(left, names, depth), literals(right, names, depth)]
        case ast.IfExp(body=body, orelse=orelse):
            parts = [[*literals(body, names, depth), *literals(orelse, names, depth)]]
        case ast.FormattedValue(value=value):
            parts = [literals(value, names, depth)]
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in names and depth:
            parts = [literals(names[name], names, depth - 1)]
        case _:
            parts = [["{}"]]
    return ["".join(texts) for texts in product(*parts)]


def templates(
    tree: ast.AST, others: Mapping[str, ast.expr] = MappingProxyType({})
) -> Iterator[tuple[int, str]]:
    """Texts of ``sh`` and ``Script``: literals, f-strings, and names of them in any module."""
    names = {**others, **named(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="sh" | "Script"), args=[text, *_]):
                yield from ((node.lineno, each) for each in literals(text, names))
            case _:
                pass


def arguments(
    tree: ast.AST, others: Mapping[str, ast.expr] = MappingProxyType({})
) -> Iterator[tuple[int, str]]:
    """Texts that ``call`` gives a function of a program, and those of a list of them."""
    names = {**others, **named(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="call"), args=[_, _, *given]):
                for part in given:
                    value = part.value if isinstance(part, ast.Starred) else part
                    several = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
                    for each in several:
                        yield from ((node.lineno, text) for text in literals(each, names))
            case _:
                pass


def is_python(text: str) -> bool:
    """Whether it is a Python program: it imports something and does something else."""
    try:
        lines = ast.parse(text).body
    except SyntaxError:
        return False
    imports = [line for line in lines if isinstance(line, ast.Import | ast.ImportFrom)]
    return 0 < len(imports) < len(lines)


@cache
def all_names() -> dict[str, ast.expr]:
    """Constants of all modules, which another one may import."""
    every: dict[str, ast.expr] = {}
    for file in SOURCE.rglob("*.py"):
        every |= {k: v for k, v in named(ast.parse(file.read_text())).items() if k.isupper()}
    return every


def programs(file: Path) -> list[tuple[int, str]]:
    tree = ast.parse(file.read_text())
    shell = [(line, text) for line, text in templates(tree, all_names()) if is_program(text)]
    given = arguments(tree, all_names())
    return shell + [(line, text) for line, text in given if is_compound(text) or is_python(text)]


def asks(tree: ast.AST) -> bool:
    """Whether a module is part of the table of questions: it has rows (docs/decisions/0097)."""
    rows = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(row, ast.Name) and row.id == "Question" for row in rows)


def modules() -> list[Path]:
    """All but programs themselves, and the table of questions, whose rows are shell and parser."""
    files = [file for file in sorted(SOURCE.rglob("*.py")) if not file.is_relative_to(FOLDER)]
    table = SOURCE / "inspect"
    return [f for f in files if not (f.is_relative_to(table) and asks(ast.parse(f.read_text())))]


def test_no_module_holds_a_program() -> None:
    held = [
        f"{file.relative_to(SOURCE)}:{line}: {text[:80]!r}"
        for file in modules()
        for line, text in programs(file)
    ]
    assert held == [], "write it as a function of a file of agents; call it by hosts.quote.call"


def joined(file: Path, most: int) -> list[tuple[int, str]]:
    """Texts of a module that join more commands."""
    texts = templates(ast.parse(file.read_text()), all_names())
    return [(line, text) for line, text in texts if commands(text) > most]


def test_parts_of_the_batch_script_are_files() -> None:
    """What is made of many pieces is read in files, each piece with its header (decision 0102)."""
    parts = [file for file in modules() if file.is_relative_to(SOURCE / "jobs/batch")]
    assert len(parts) >= 4
    assert [(file.name, text) for file in parts for _, text in joined(file, 1)] == []


@pytest.mark.parametrize("text", ["cd {w} || fail x", "{{ a; b; }}", "a={a}\nb={b}"])
def test_two_commands_of_a_batch_script_are_seen(tmp_path: Path, text: str) -> None:
    file = tmp_path / "part.py"
    file.write_text(f"A = {text!r}\nsh(A)\n")
    assert joined(file, 1) and not joined(file, 2)


COUNTED = {1: "one command", 3: "three commands"}


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "docs/decisions/0102-names-programs-and-figures-in-one-place.md"]
)
def test_the_limit_is_the_one_that_the_pages_state(repo: Path, page: str) -> None:
    text = " ".join((repo / page).read_text().split())
    assert f"at most {COUNTED[MOST]}" in text and f"at most {COUNTED[1]}" in text


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("rm -f {path}", False),
        ("[ -e {path} ] && cat {path} || echo absent", False),
        ("( {script}\n) 2>&1 && {other}", False),
        ("awk '{{ if (a) b; else c; d; e }}' {path}", False),
        ("for f in {files}; do rm $f; done", True),
        ("a && b\nif [ -e {x} ]; then y; fi", True),
        ("f() {{ a; }}; f", True),
        ("umask 077; mkdir {a} && cd {a} && rm x", True),
        ("case $x in a) b ;; esac", True),
    ],
)
def test_what_a_program_is(text: str, program: bool) -> None:
    assert is_program(text) is program


LOOP = "for f in {files}; do rm $f; done"


@pytest.mark.parametrize(
    "source",
    [
        f"sh({LOOP!r})",
        f"A = {LOOP!r}\nsh(A)",
        f"A = {LOOP!r}\nB = f'{{A}}; rm x'\nsh(B)",
        f"A: Final = f'{LOOP} {{0}}'\ndef f():\n  return Script(A)",
        f"sh('true\\n' + {LOOP!r})",
        f"sh('true' if a else {LOOP!r})",
        "sh(module.A)",
        "sh(A)",
    ],
)
def test_a_program_is_seen_however_it_is_written(source: str) -> None:
    others = named(ast.parse(f"A = {LOOP!r}"))
    assert any(is_program(text) for _, text in templates(ast.parse(source), others))


@pytest.mark.parametrize(
    "given",
    [
        "R",
        "*(base, 1, R)",
        "*[R], *more",
        repr(LOOP),
        "'import os; os.remove(1)'",
        "R if a else None",
    ],
)
def test_a_program_that_is_an_argument_is_seen(given: str) -> None:
    source = f"R = 'import sys\\nprint(sys.path)'\ncall('a.sh', 'f', {given})"
    texts = [text for _, text in arguments(ast.parse(source))]
    assert any(is_compound(text) or is_python(text) for text in texts)


def test_a_name_set_by_its_own_value_ends() -> None:
    assert list(templates(ast.parse("a = ''\na = a + 'x'\nsh(a)")))


def test_every_other_module_is_searched() -> None:
    """No folder is left out: of providers, of jobs, of simulated clouds."""
    searched = {str(file.relative_to(SOURCE)) for file in modules()}
    assert {"providers/runpod/client.py", "jobs/batch/fabric.py", "jobs/usage.py"} <= searched
    assert {"testing/clouds/containers.py", "roles/machine/fabric.py"} <= searched
    left = {str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py")} - searched
    assert {path.partition("/")[0] for path in left} == {"agents", "inspect"}


PROGRAMS = [
    file
    for file in SOURCE.rglob("*")
    if file.is_file()
    and file.suffix not in (".py", ".pyi", ".pyc")
    and (file.suffix in (".sh", ".pl", ".awk") or file.read_bytes().startswith(b"#!"))
]


def test_programs_are_in_one_folder_or_in_that_of_their_provider() -> None:
    """What providers share is for all of them: its programs are in ``agents`` (decision 0102)."""
    homes = [FOLDER, *(SOURCE / "providers" / name / "programs" for name in REGISTRY)]
    assert len(PROGRAMS) > 100
    apart = [file for file in PROGRAMS if not any(file.is_relative_to(home) for home in homes)]
    assert apart == []


LIBRARIES = sorted(
    str(file.relative_to(FOLDER))
    for file in FOLDER.rglob("*.sh")
    if "in front of a call" in file.read_text()
)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_file_of_functions_holds_nothing_else(name: str) -> None:
    """What is outside of a function would not be sent."""
    text = (FOLDER / name).read_text()
    own = agents._FUNCTION.sub("", text)
    rest = [line for line in own.splitlines() if line.strip() and not line.startswith("#")]
    assert all(line.endswith(" #include") for line in rest), rest


CALL = re.compile(r"\bcall\(\s*(?:\"([\w/.-]+\.sh)\"|(_[A-Z]+)),\s*\"(\w+)\"")


def test_each_function_that_is_called_is_there_and_each_is_used() -> None:
    called: set[tuple[str, str]] = set()
    text = {file: file.read_text() for file in SOURCE.rglob("*.py")}
    words = set(re.findall(r"\w+", "\n".join(text.values())))
    for source in text.values():
        names = dict(re.findall(r"^(_[A-Z]+): Final = \"([\w/.-]+\.sh)\"$", source, re.MULTILINE))
        called |= {(path or names[name], fn) for path, name, fn in CALL.findall(source)}
    assert len(called) > 100
    for path, function in sorted(called):
        assert agents.functions(path, function)
    shell = [f for f in FOLDER.rglob("*") if f.is_file() and f.suffix != ".pyc"]
    lines = [line.partition("#")[0] for file in shell for line in file.read_text().splitlines()]
    uses = Counter(word for line in lines for word in set(re.findall(r"\w+", line)))
    for name in LIBRARIES:
        for match in agents._FUNCTION.finditer((FOLDER / name).read_text()):
            assert uses[match[1]] > 1 or match[1] in words, f"{name}: {match[1]} is used by nobody"


def test_what_a_command_printed_is_not_piped_by_echo() -> None:
    """dash's echo reads backslashes: what a machine or a user wrote could begin a line."""
    files = [*FOLDER.rglob("*"), *(SOURCE / "providers").glob("*/programs/*")]
    programs = [f for f in files if f.is_file() and f.suffix in (".sh", "")]
    assert len(programs) > 50
    piped = [
        f"{file.name}: {match[0]}"
        for file in programs
        for match in re.finditer(r'\becho "\$\w+" *\|(?!\|)', file.read_text())
    ]
    assert not piped
