"""Rules of the repository: imports, sizes, no foreign addresses, docs that agree with the code."""

from __future__ import annotations

import ast
import io
import re
import shutil
import socket
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Container, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest
import pytest_socket

from corral.spec.models import ClusterSpec

REPO = Path(__file__).parents[2]
MAX_FUNCTION = 60

# Written as patterns, so that this file does not hold what it forbids.
FOREIGN = re.compile(
    r"""pypi\.(org|io)|pythonhosted\.org|registry\.npmjs|crates\.io|proxy\.golang|anaconda\.org
    |deb\.debian|security\.debian|snapshot\.debian|archive\.ubuntu|ports\.ubuntu|security\.ubuntu
    |docker\.io|quay\.io|ghcr\.io|gcr\.io|index-url\s*=?\s*http|download\.pytorch
    |/work/(main|shared|\.)|/root/\.pyenv|/opt/wheel[s]|/home/[a-z]+/""",
    re.VERBOSE,
)


MADE = {
    ".venv", ".git", "__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis", ".device",
    "node_modules",
}  # fmt: skip
SMALLEST_ALIKE = 20
"""Nodes of a function's syntax tree from which on it is worth one place."""


def tracked() -> list[Path]:
    """Files of the repository: tracked by git, or new and not ignored.

    In a copy on a machine without git, all but what is made here.
    """
    if not shutil.which("git") or not (REPO / ".git").exists():
        entries = (f for f in REPO.rglob("*") if not MADE & set(f.relative_to(REPO).parts))
        return sorted(f for f in entries if f.is_file())
    trust = ["-c", "safe.directory=*"]  # git 2.35.2 refuses root in a user's checkout otherwise
    command = ["git", *trust, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    return [f for name in listed.stdout.split("\0") if name and (f := REPO / name).is_file()]


FILES = tracked()
PYTHON = [f for f in FILES if f.suffix == ".py"]
DOCS = [f for f in FILES if f.suffix == ".md"]


def name_of(file: Path) -> str:
    return str(file.relative_to(REPO))


def prose(text: str) -> str:
    """Markdown without its code."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S))


def anchors(text: str) -> set[str]:
    """Heading anchors as Git hosts make them."""
    heads = re.findall(r"^#+ +(.+?) *$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below one; expressions, most of a tree, hold none."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            yield child
            yield from statements(child)


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_stay_small() -> None:
    long = [
        f"{name_of(file)}: {node.name}: {lines_of(node)} lines"
        for file in PYTHON
        for node in statements(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and lines_of(node) > MAX_FUNCTION
    ]
    assert not long


NOUNS = {
    "accounting": "Slurm's name for slurmdbd's part (slurm.conf: AccountingStorageType)",
    "framing": "how messages are divided in a stream (RFC 9112, HTTP/2 frames)",
    "scaling": "strong and weak scaling: throughput by the number of nodes",
    "scheduling": "Slurm's name for slurmctld's part (slurm.conf: SchedulerType)",
    "serving": "inference servers: model serving (Triton, vLLM)",
    "testing": "what tests and benchmarks import, as numpy.testing",
    "tracking": "experiment tracking (MLflow Tracking)",
}


def body_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, int]:
    """A function's code without its docstring and its names for local values, and its size."""
    lines = function.body[1:] if ast.get_docstring(function) else function.body
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    code = ast.parse(ast.unparse(ast.Module(lines, [])))
    names = [node for node in ast.walk(code) if isinstance(node, ast.Name)]
    local = {a.arg for a in given} | {n.id for n in names if isinstance(n.ctx, ast.Store)}
    order: dict[str, str] = {}
    for name in names:
        if name.id in local:
            name.id = order.setdefault(name.id, f"_{len(order)}")
    return ast.dump(code), sum(1 for _ in ast.walk(code))


def alike(folder: Path) -> list[list[str]]:
    """Functions and methods that do the same; programs for nodes are separate files."""
    places: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        if "agents" in path.relative_to(folder).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body, size = body_of(node)
                if size >= SMALLEST_ALIKE:
                    places.setdefault(body, []).append(f"{path.stem}.{node.name}")
    return [each for each in places.values() if len(each) > 1]


def test_no_two_functions_do_the_same() -> None:
    assert alike(REPO / "src/corral") == []


def test_functions_that_do_the_same_are_seen(tmp_path: Path) -> None:
    text = (
        'def {0}({1}):\n    """{0}."""\n    with open({1}) as {2}:\n'
        "        return len({2}.read() + {1})\n"
    )
    (tmp_path / "a.py").write_text(text.format("first", "path", "file"))
    (tmp_path / "b.py").write_text(text.format("second", "name", "read"))
    assert alike(tmp_path) == [["a.first", "b.second"]]


def test_no_module_imports_itself_through_others() -> None:
    """Imports for type checks included: they are for a reader who follows them, too."""
    source = REPO / "src"
    paths = {
        ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): file
        for file in PYTHON
        if file.is_relative_to(source)
    }
    imports: dict[str, set[str]] = {}
    for module, path in paths.items():
        names = (name for each in ast.walk(ast.parse(path.read_text())) for name in imported(each))
        imports[module] = {nearest(name, paths) for name in names} - {module, ""}
    assert len(tuple(TopologicalSorter(imports).static_order())) == len(paths)


def imported(node: ast.AST) -> list[str]:
    """What a statement imports: modules, and names in them."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def nearest(name: str, modules: Container[str]) -> str:
    """The module that a name is, or is in; "" for one of another project."""
    if name in modules:
        return name
    above = name.rpartition(".")[0]
    return above if above in modules else ""


def test_modules_are_named_by_nouns() -> None:
    """A folder or file whose name ends in -ing: the field's own noun for its subject."""
    source = REPO / "src"
    files = [file.relative_to(source) for file in FILES if file.is_relative_to(source)]
    names = {part.split(".")[0] for file in files for part in file.parts}
    assert len(names) > 400
    words = {re.split(r"[-_]", name)[-1] for name in names}
    assert {word for word in words if word.endswith("ing")} == NOUNS.keys()


DISPLAYS = ast.Tuple | ast.List | ast.Dict | ast.Set


def is_table(value: ast.expr | None) -> bool:
    """Rows that are written out, also in a call: ``frozenset({...})``, ``case("a", [...])``."""
    if isinstance(value, ast.Call):
        return any(map(is_table, [*value.args, *(k.value for k in value.keywords)]))
    return isinstance(value.value if isinstance(value, ast.Starred) else value, DISPLAYS)


def is_plain(value: ast.expr | None) -> bool:
    """Rows of constants and names: nothing is worked out in them."""
    match value:
        case None | ast.Constant() | ast.Name():
            return True
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return all(map(is_plain, parts))
        case ast.Dict(keys=keys, values=values):
            return all(map(is_plain, [*keys, *values]))
        case _:
            return False


def holds_a_table(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.AugAssign(value=value):
            return is_table(value)
        case ast.Return(value=value) | ast.For(iter=value):
            return isinstance(value, DISPLAYS)
        case ast.Assert(test=ast.Compare(comparators=[*_, expected])):
            return isinstance(expected, DISPLAYS)
        case _:
            return False


def holds_plain_data(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.Return(value=value):
            return isinstance(value, DISPLAYS) and is_plain(value)
        case _:
            return False


def unformatted(text: str, *, plain: bool = False) -> list[int]:
    """Lines whose statement is kept from the formatter, and is not a table of data.

    Args:
        text: the source.
        plain: tables within functions hold constants and names alone.
    """
    marks = tokenize.generate_tokens(io.StringIO(text).readline)
    skips = {t.start[0] for t in marks if t.type == tokenize.COMMENT and "fmt: " in t.string}
    ends: dict[int, bool] = {}
    tree = ast.parse(text)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if plain and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in statements(function)
    }
    for node in statements(tree) if skips else ():
        assert isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case)
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            end = body[0].lineno - 1 if body else node.end_lineno
            holds = holds_plain_data if id(node) in inside else holds_a_table
            ends[end or node.lineno] = holds(node)
        for decorator in getattr(node, "decorator_list", ()):
            ends[decorator.end_lineno] = is_table(decorator)
    return sorted(line for line in skips if not ends.get(line, False))


def test_only_tables_of_data_are_kept_from_the_formatter() -> None:
    kept = {
        name_of(file): lines
        for file in PYTHON
        if (lines := unformatted(file.read_text(), plain=True))
    }
    assert not kept, "remove the comment, or make the rows a separate table"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("ROWS = (\n  1, 2,\n){mark}", []), ("ROWS: Final = frozenset({1,\n 2}){mark}", []),
        ("@case([\n 1, 2])\ndef f(): pass", []), ("assert f() == [\n 1, 2]{mark}", []),
        ("for a, b in (\n (1, 2), (3, 4)):{mark}\n  pass", []),
        ("@case([\n 1, 2]){mark}\ndef f(): pass", []), ("rows += [\n 1]{mark}", []),
        ("yield f(1,\n  2){mark}", [2]), ("x = f(1,\n  2){mark}", [2]),
        ("def f(\n  a, b):{mark}\n  pass", [2]), ("x = [a for a in\n b]{mark}", [2]),
        ("if a:\n  raise E(\n    1, 2){mark}", [3]), ("# fmt: " + "off\nx = 1", [1]),
        ("ROWS = (\n 1,\n)\nf(1,\n 2){mark}", [5]),
    ],
)  # fmt: skip
def test_code_kept_from_the_formatter_is_listed(text: str, seen: list[int]) -> None:
    assert unformatted(text.replace("{mark}", "  # fmt: " + "skip")) == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("def f():\n  return {{\n   'a': str(b)}}{mark}", [3]),
        ("def f():\n  for a in (\n   1, 2):{mark}\n    pass", [3]),
        ("def f():\n  a = (\n   b.c, 1){mark}", [3]), ("def f():\n  a = (\n   b, 1){mark}", []),
        ("ROWS = (\n g(1),\n){mark}", []),
    ],
)  # fmt: skip
def test_code_in_functions_is_formatted(text: str, seen: list[int]) -> None:
    marked = text.replace("{mark}", "  # fmt: " + "skip").replace("{{", "{").replace("}}", "}")
    assert unformatted(marked, plain=True) == seen


MAX_MODULES = 16


def modules_by_folder(files: list[Path]) -> Counter[Path]:
    """Modules of Python and of JavaScript in each folder, apart from the folder's own."""
    return Counter(f.parent for f in files if f.suffix in {".py", ".js"} and f.stem != "__init__")


def test_folders_hold_one_subject() -> None:
    """A folder with more modules gets folders by subject (decision 0098)."""
    source = REPO / "src/corral"
    counts = modules_by_folder([f for f in FILES if f.is_relative_to(source)])
    assert len(counts) > 70
    assert len({folder for folder in counts if "js" in folder.parts}) > 5
    assert not {name_of(f): count for f, count in counts.items() if count > MAX_MODULES}


def test_modules_of_a_folder_are_counted() -> None:
    files = [Path("a", name) for name in ("__init__.py", "b.py", "c.py", "d.yaml")]
    more = [Path("a/e/f.py"), Path("a/js/g.js"), Path("a/js/h.js"), Path("a/js/i.d.ts")]
    counts = {Path("a"): 2, Path("a/e"): 1, Path("a/js"): 2}
    assert modules_by_folder([*files, *more]) == counts


def test_unit_tests_mirror_the_source() -> None:
    """A folder with tests has the name and the place of the folder that they test."""
    tests = REPO / "tests/unit"
    folders = {
        f.parent.relative_to(tests)
        for f in PYTHON
        if f.is_relative_to(tests) and f.stem.startswith("test_")
    }
    assert len(folders) > 50
    lost = {str(folder) for folder in folders if not (REPO / "src/corral" / folder).is_dir()}
    assert not lost


def test_source_has_no_assert_statement() -> None:
    places = [
        f"{name_of(file)}:{node.lineno}"
        for file in PYTHON
        if file.is_relative_to(REPO / "src") and "assert" in (text := file.read_text())
        for node in statements(ast.parse(text))
        if isinstance(node, ast.Assert)
    ]
    assert not places, "python -O strips assert: raise a CorralError"


def test_statements_anywhere_are_seen() -> None:
    text = """class A:
    async def b(self):
        try:
            for c in d:
                with e: assert 1
            else: assert 2
        except F:
            while g: assert 3
            else: assert 4
        else: assert 5
        finally:
            match h:
                case 1: assert 6
        if i: pass
        elif j: assert 7
        else:
            def k(): assert 8
"""
    numbers = [node.lineno for node in statements(ast.parse(text)) if isinstance(node, ast.Assert)]
    lines = text.splitlines()
    assert sorted(numbers) == [n for n, line in enumerate(lines, 1) if "assert" in line]


def test_import_law() -> None:
    """The rooms' contracts in pyproject.toml."""
    linter = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run(
        [linter, "--no-cache"], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_no_foreign_address_or_machine_path() -> None:
    """Where packages come from is the user's own setting; paths of one machine help nobody."""
    places: list[str] = []
    for file in FILES:
        try:
            lines = file.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        places += [
            f"{name_of(file)}:{number}: {match[0]}"
            for number, line in enumerate(lines, 1)
            if (match := FOREIGN.search(line))
        ]
    assert not places, "\n".join(places)


@pytest.mark.parametrize("bad", ["https://pypi" + ".org/simple", "cd /work/" + "main && ls"])
def test_foreign_addresses_are_seen(bad: str) -> None:
    assert FOREIGN.search(bad)


def links() -> Iterator[tuple[Path, str]]:
    for doc in DOCS:
        text = prose(doc.read_text())
        for target in re.findall(r"\]\(([^)\s]+)\)|<img[^>]*\ssrc=\"([^\"]+)\"", text):
            yield doc, target[0] or target[1]


def leads_somewhere(doc: Path, target: str) -> bool:
    if target.startswith("https://"):
        return True
    path, _, anchor = target.partition("#")
    file = (doc.parent / path).resolve() if path else doc
    return file.exists() and (not anchor or anchor in anchors(file.read_text()))


def test_links_lead_somewhere() -> None:
    all_links = list(links())
    assert len(all_links) > len(DOCS)
    lost = [f"{name_of(d)} points to {to}" for d, to in all_links if not leads_somewhere(d, to)]
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize("target", ["gone.md", "#no-such-heading", "README.md#no-such-heading"])
def test_dead_links_are_seen(target: str) -> None:
    assert not leads_somewhere(REPO / "README.md", target)


CITED = re.compile(r"(?<![\w./-])docs/[\w./-]+\.md(?:#[\w-]+)?")


def lost_citations(text: str) -> list[str]:
    """Pages of the docs, or headings of them, that a text cites and that are not there."""
    return [to for to in CITED.findall(text) if not leads_somewhere(REPO / "README.md", to)]


def test_pages_cited_in_programs_and_tables_exist() -> None:
    """Comments, docstrings and catalogues cite pages by path and heading."""
    others = {".py", ".sh", ".js", ".ts", ".yaml", ".toml", ".conf"}
    texts = {name_of(f): f.read_text(errors="replace") for f in FILES if f.suffix in others}
    assert sum(len(CITED.findall(text)) for text in texts.values()) > 50
    assert not {name: lost for name, text in texts.items() if (lost := lost_citations(text))}


@pytest.mark.parametrize("page", ["gone.md", "decisions/README.md#gone", "architecture.md#gone"])
def test_citations_of_lost_pages_are_seen(page: str) -> None:
    assert lost_citations(f"# Why: (docs/{page}).") == [f"docs/{page}"]
    assert lost_citations("docs/architecture.md#who-trusts-whom, docs/decisions/README.md.") == []


def test_paths_named_in_docs_exist() -> None:
    """``examples/laptop.yaml``, ``src/corral/plan/`` in backquotes or commands are real files."""
    shape = re.compile(r"(?<![\w/.-])(?:(?:examples|src|tests|benchmarks|docs)/[\w./-]*[\w/])")
    missing = [
        f"{name_of(doc)}: {path}"
        for doc in DOCS
        for path in shape.findall(doc.read_text())
        if not (REPO / path).exists()
    ]
    assert not missing


ROOMS = sorted(init.parent.name for init in (REPO / "src/corral").glob("*/__init__.py"))
CITED_FILE = re.compile(r"(?<![\w./-])src/corral/[\w./-]*\w")
CITED_NAME = re.compile(rf"(?<![\w./@-])(?:corral\.)?(?:{'|'.join(ROOMS)})(?:\.\w+)+")
FILE_NAMES = re.compile(
    r"slurm\.(conf|jwks|key|h)\b|hosts\.node1|\w+\.(py|ts|toml|yaml|json|sh|md|timer|service)$"
)


def lost_code(text: str) -> list[str]:
    """Files and names of Corral's modules that a comment or docstring cites and that are not there.

    ``state.service`` is ``corral.state.service``; what begins otherwise (``corral.node``, a label)
    is not read.
    """
    names = {name for name in CITED_NAME.findall(text) if not FILE_NAMES.match(name)} - fields()
    lost = [path for path in CITED_FILE.findall(text) if not (REPO / path).exists()]
    return lost + sorted(name for name in names if not holds(name))


@cache
def fields() -> set[str]:
    """Fields of the cluster file as people write them: ``slurm.settings``."""
    return {
        f"{name}.{inner}"
        for name, field in ClusterSpec.model_fields.items()
        for kind in (field.annotation, *get_args(field.annotation))
        for inner in getattr(kind, "model_fields", {})
    }


def holds(name: str) -> bool:
    """Whether there is such a package, module or word of a module."""
    place, parts = REPO / "src/corral", name.removeprefix("corral.").split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    files = [place / "__init__.py", place / "__init__.pyi"]
    if parts and (module := place / f"{parts[0]}.py").is_file():
        files = [module]
        parts.pop(0)
    texts = [file.read_text() for file in files if file.is_file()]
    return not parts or any(re.search(rf"\b{parts[0]}\b", text) for text in texts)


def test_code_cited_in_comments_exists() -> None:
    kinds = {".py", ".sh", ".awk", ".pl", ".yaml", ".toml"}
    files = [f for f in FILES if f.is_relative_to(REPO / "src/corral") and f.suffix in kinds]
    texts = {
        name_of(f): remarks(f, f.read_text())
        if f.suffix == ".py"
        else "\n".join(COMMENT.findall(f.read_text()))
        for f in files
    }
    assert sum(len(CITED_NAME.findall(text)) for text in texts.values()) > 50
    assert not {name: lost for name, text in texts.items() if (lost := lost_code(text))}


@pytest.mark.parametrize(
    ("cited", "lost"),
    [
        ("``state.service.STAMPS`` and corral.hosts.quote, src/corral/hosts/quote.py.", []),
        ("the label corral.node; slurm.conf; slurm.settings; api.up", []),
        ("``corral.state.person``", ["corral.state.person"]),
        ("(providers.foreign.Export)", ["providers.foreign.Export"]),
        ("src/corral/jobs/follow_script.py", ["src/corral/jobs/follow_script.py"]),
    ],
)
def test_citations_of_lost_code_are_seen(cited: str, lost: list[str]) -> None:
    assert lost_code(cited) == lost


def lost_tests(text: str) -> list[str]:
    """Tests and their modules that a text names in quotes and that no file holds."""
    tests = [f for f in PYTHON if f.stem.startswith("test_")]
    known = {f.stem for f in tests}
    known.update(*(re.findall(r"^(?:async )?def (test_\w+)", f.read_text(), re.M) for f in tests))
    return sorted(set(re.findall(r'"(test_\w+)"', text)) - known)


def test_tests_named_in_conftests_exist() -> None:
    """One that is renamed would leave its order, or the tests that each run takes, silently."""
    lost = {name_of(f): lost_tests(f.read_text()) for f in PYTHON if f.name == "conftest.py"}
    assert not {file: names for file, names in lost.items() if names}
    assert lost_tests('{"test_repo", "test_of_no_file"}') == ["test_of_no_file"]


def test_changelog_has_this_version() -> None:
    version = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["version"]
    text = (REPO / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[Unreleased\]$", text, flags=re.M)
    assert re.search(rf"^## \[{re.escape(version)}\]", text, flags=re.M)


DECISIONS = REPO / "docs/decisions"
PARTS = ["Context", "Decision", "Consequences", "Alternatives"]
NAMED = re.compile(r"[Dd]ecisions?[/ ](\d{4})\b")
BARE = re.compile(r"(?<![\w.:/\-])(?<!mode )(?<!modes )(?<!umask )0\d{3}(?![\w:/])(?!\.\w)")
COMMENT = re.compile(r"(?:(?:^|\s)#|//|^\s*/?\*).*$", re.M)


def decisions() -> dict[str, Path]:
    return {record.name[:4]: record for record in sorted(DECISIONS.glob("[0-9]*.md"))}


def index_rows(text: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The index's two tables by number: records, and numbers whose content is elsewhere."""
    tables: list[dict[str, list[str]]] = []
    for part in text.split("\n## ", 1):
        rows = re.findall(r"^\| \[?(\d{4})\b(.*)\|$", part, flags=re.M)
        assert len(rows) == len({number for number, _ in rows}), "a number is listed twice"
        tables.append({number: [cell.strip() for cell in row.split(" | ")] for number, row in rows})
    return tables[0], tables[1]


def remarks(file: Path, text: str) -> str:
    """Text for people: prose of Markdown, docstrings and comments of programs."""
    if file.suffix == ".md":
        return prose(text)
    if file.suffix != ".py":
        return "\n".join(COMMENT.findall(text)) if file.suffix in {".sh", ".js", ".yaml"} else ""
    docs = [
        doc
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(doc := node.value.value, str)
    ]
    marks = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*docs, *(t.string for t in marks if t.type == tokenize.COMMENT)])


def mentioned(file: Path, highest: str) -> set[str]:
    """Numbers of decisions that a file names, as far as any have been given."""
    try:
        text = file.read_text()
    except UnicodeDecodeError:
        return set()
    people = remarks(file, text) if BARE.search(text) else ""
    bare = {number for number in BARE.findall(people) if "0000" < number <= highest}
    return bare | set(NAMED.findall(text))


def test_decisions_have_one_number_and_four_parts() -> None:
    records = sorted(DECISIONS.iterdir())
    for record in (r for r in records if r.name != "README.md"):
        assert re.fullmatch(r"\d{4}(-[a-z0-9]+)+\.md", record.name), record.name
        text = record.read_text()
        assert re.match(rf"# {record.name[:4]}: \S", text), record.name
        assert re.findall(r"^## (.+)$", text, flags=re.M) == PARTS, record.name
        bodies = re.split(r"^## .+$", text, flags=re.M)[1:]
        assert all(body.strip() for body in bodies), f"{record.name}: an empty part"
    assert len(decisions()) == len(records) - 1, "a number was given twice"


FEWEST, MOST = 20, 30


def test_a_newcomer_reads_20_to_30_decisions() -> None:
    hint = "fold what explains one page into that page, and list its number as folded"
    assert FEWEST <= len(decisions()) <= MOST, hint


def test_decisions_are_in_the_index() -> None:
    listed, folded = index_rows((DECISIONS / "README.md").read_text())
    assert set(listed) == set(decisions())
    for number, cells in listed.items():
        assert cells[0] == f"]({decisions()[number].name})", number
        assert all(cells[1:]) and len(cells) == 3 and cells[2].endswith("."), number
    assert not set(folded) & set(listed), "a number is given once and never again"
    assert all("](" in cells[-1] or "`" in cells[-1] for cells in folded.values())


def test_the_index_of_decisions_is_in_order() -> None:
    """In each of its sections, whose heads are rows in bold type."""
    sections = re.split(r"^\|[ *]", (DECISIONS / "README.md").read_text(), flags=re.M)
    before = ""
    for row in sections:
        number = (re.match(r"\[(\d{4})\]", row) or [row, ""])[1]
        assert not number or before < number, f"{number} comes before {before}"
        before = number


def test_numbers_of_decisions_lead_somewhere() -> None:
    """Folded numbers are named in the index alone, which lists where their content is now."""
    index = DECISIONS / "README.md"
    highest = max(decisions() | index_rows(index.read_text())[1])
    lost = {
        name_of(file): sorted(gone)
        for file in FILES
        if file != index
        and not file.is_relative_to(REPO / "tests/recorded")
        and (gone := mentioned(file, highest) - set(decisions()))
    }
    assert not lost


@pytest.mark.parametrize(
    ("name", "text", "seen"),
    [
        ("a.py", '"""Why: docs/decision' + 's/0004."""', True),
        ("a.py", "x = 1  # systemd 257, 0079", True),
        ("a.py", '"""Refused all the same (0089)."""', True),
        ("a.py", 'MODE = "0077"', False),
        ("a.md", "As before (0088; fixed).", True),
        ("a.md", "Umask `0077`, mode 0022, PCI 0000:01:00.0, cat/0001.png.", False),
        ("a.sh", "umask 0077 # decisio" + "n 0009", True),
        ("a.yaml", "key: 0077", False),
    ],
)
def test_stale_numbers_of_decisions_are_seen(
    tmp_path: Path, name: str, text: str, *, seen: bool
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert bool(mentioned(file, "0094")) is seen


def test_every_room_is_in_the_architecture_page() -> None:
    page = (REPO / "docs/architecture.md").read_text()
    rooms = [d.name for d in (REPO / "src/corral").iterdir() if (d / "__init__.py").exists()]
    assert rooms
    assert [r for r in rooms if f"`{r}" not in page and f" {r}/" not in page] == []


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_unit_tests_cannot_open_a_network_socket() -> None:
    with pytest.raises(pytest_socket.SocketBlockedError):
        socket.create_connection(("127.0.0.1", 9))


CLOCK = re.compile(
    r"""setattr\(\s*(?:\w+\.)*time,\s*["']time["']|setattr\(\s*["'](?:\w+\.)*time\.time["']"""
)


def test_a_clock_is_set_for_one_module() -> None:
    """Set in ``time`` itself it is that of the process.

    A test that did it for a date to come passed until that date: then its logins had ended.
    """
    assert CLOCK.search("patch.setattr(figures." + 'time, "time", f)')
    assert not CLOCK.search('patch.setattr(figures, "time", clock)')
    others = [f for f in (REPO / "tests").rglob("*.py") if f != Path(__file__)]
    assert not [f for f in others if CLOCK.search(f.read_text())]


def test_bytes_of_archives_in_tests_are_the_same_each_time() -> None:
    """Two processes collect the tests: a time in the bytes, as gzip has, gives other names."""
    timed = [
        f"{file.relative_to(REPO)}:{node.lineno}"
        for file in sorted((REPO / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"gzip.compress", "gzip.GzipFile"}
        and "mtime" not in {keyword.arg for keyword in node.keywords}
    ]
    assert timed == []
