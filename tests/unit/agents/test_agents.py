"""Programs for nodes: each names where it is installed, who starts it, and as whom."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from corral import agents
from corral.agents import FOLDER, LABELS, modules, program
from corral.errors import CorralError
from corral.jobs.submit import LIBRARY
from corral.providers.cloud.client.accounts import calls_of
from corral.spec.providers import CLOUDS

PROVIDERS = FOLDER.parent / "providers"
PROGRAMS = sorted(
    os.path.relpath(path, FOLDER)
    for path in (*FOLDER.rglob("*"), *PROVIDERS.glob("*/programs/*"))
    if path.is_file() and path != FOLDER / "__init__.py" and "__pycache__" not in path.parts
)

LIBRARY_FILES = [FOLDER.parent / name for name in LIBRARY]
SERVICES = sorted(
    {
        match
        for file in (FOLDER.parent / "roles").rglob("*.py")
        for match in re.findall(r"^ExecStart=.* -m (corral[\w.]*)", file.read_text(), re.MULTILINE)
    }
)
"""Modules of Corral's that a unit starts on a node."""


def file_of(module: str) -> Path:
    path = FOLDER.parents[1] / module.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def test_there_are_some() -> None:
    assert len(PROGRAMS) > 20


def test_services_of_corrals_own_are_found() -> None:
    assert SERVICES == [
        "corral.web",
        "corral.web.as_user",
        "corral.web.login.helper",
        "corral.web.metrics",
        "corral.web.users.job_end",
    ]


def test_they_are_of_all_kinds() -> None:
    assert {name.rpartition("/")[0] for name in PROGRAMS} == {
        *("", "../providers/gcp/programs", "../providers/runpod/programs", "benchmarks"),
        *("backup", "containers", "gates", "jobs", "jobs/batch", "ledger"),
        *("prolog", "prolog/prolog.d", "prolog/epilog.d", "notify", "prove", "state"),
    }
    assert {name.rpartition("/")[2].partition(".")[1:] for name in PROGRAMS} == {
        (".", "py"),
        (".", "sh"),
        (".", "pl"),
        (".", "awk"),
        (".", "lua"),
        ("", ""),
    }


@pytest.mark.parametrize(
    "path",
    [*(FOLDER / name for name in PROGRAMS), *LIBRARY_FILES, *map(file_of, SERVICES)],
    ids=str,
)
def test_the_first_lines_state_where_by_whom_and_as_whom(path: Path) -> None:
    head = takewhile(lambda line: line.startswith(("#", "--")), path.read_text().splitlines())
    lines = [line.lstrip("#- ") for line in head]
    for label in LABELS:
        (row,) = [line for line in lines if line.startswith(label)]
        assert row.removeprefix(label).strip()


@pytest.mark.skipif(not shutil.which("perl"), reason="perl is not installed")
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.endswith(".pl")])
def test_perl_reads_it(name: str) -> None:
    ended = subprocess.run(["perl", "-cwe", program(name)], capture_output=True, text=True)
    assert ended.stderr == "-e syntax OK\n"


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.endswith(".py")])
def test_nothing_of_corral_is_imported(name: str) -> None:
    text = program(name)
    assert "import corral" not in text
    assert "from corral" not in text


NEWER_THAN_3_10 = {
    "StrEnum",
    "UTC",
    "Self",
    "assert_never",
    "ExceptionGroup",
    "TaskGroup",
    "tomllib",
}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_is_copied_to_a_controller_needs_its_python_alone(cloud: str) -> None:
    texts = modules(calls_of(cloud))
    assert [path for path in texts if path.startswith("corral/providers/cloud/")] == [
        f"corral/providers/cloud/{name}.py" for name in ("calls", "model", "response")
    ]
    assert len(texts) == 4
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text, feature_version=(3, 10))):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                assert f"{node.module}".split(".")[0] in {*sys.stdlib_module_names, "corral"}, path
                assert not names & NEWER_THAN_3_10, (path, names)
            elif isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
                assert names <= sys.stdlib_module_names - NEWER_THAN_3_10, (path, names)


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(CorralError, match=r"none\.sh is not in Corral's package"):
        program("none.sh")


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.sh").write_text(f"#!/bin/sh\n# Installed as: nowhere\n{text}\n")
    monkeypatch.setattr(agents, "FOLDER", folder)
    program.cache_clear()


def test_what_is_included_is_in_place_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(
        tmp_path,
        monkeypatch,
        top="echo top\n. a.sh #include\n# shellcheck source=b.sh\n. b.sh #include\necho end",
        a=". b.sh #include\necho a",
        b=". a.sh #include\necho b",
    )
    assert program("top.sh").splitlines() == [
        *("#!/bin/sh", "# Installed as: nowhere", "echo top"),
        *("# a.sh is above", "echo b", "echo a", "# b.sh is above", "echo end"),
    ]
    program.cache_clear()


def test_an_included_file_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, monkeypatch, top=". none.sh #include")
    with pytest.raises(CorralError, match=r"none\.sh is not in Corral's package"):
        program("top.sh")
    program.cache_clear()


def test_lint_checks_every_shell_program() -> None:
    root = FOLDER.resolve().parents[2]
    joined = (root / "test").read_text().replace("\\\n", " ")
    (line,) = [line for line in joined.splitlines() if line.lstrip().startswith("check shellcheck")]
    checked = {file for word in line.split() if "*" in word for file in root.glob(word)}
    files = [(FOLDER / name).resolve() for name in PROGRAMS]
    shells = {file for file in files if is_shell(file)}
    assert len(shells) > 20
    assert shells <= checked


def is_shell(file: Path) -> bool:
    return file.suffix == ".sh" or file.read_bytes().startswith((b"#!/bin/sh", b"#!/bin/bash"))


INCLUDES = [name for name in PROGRAMS if " #include" in (FOLDER / name).read_text()]


@pytest.mark.parametrize("name", INCLUDES)
def test_shellcheck_finds_what_is_included(name: str) -> None:
    lines = (FOLDER / name).read_text().splitlines()
    for at, line in enumerate(lines):
        if line.endswith(" #include"):
            included = line.removeprefix(". ").removesuffix(" #include")
            assert lines[at - 1] == f"# shellcheck source=src/corral/agents/{included}"
    assert "#include" not in program(name)
