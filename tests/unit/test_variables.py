"""Environment variables have one table, which readers, reference and manual page share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from corral.cli.reference import variables
from corral.spec.providers import PROVIDERS
from corral.variables import IN_JOBS, VARIABLES

REPO = Path(__file__).parents[2]
SRC = REPO / "src/corral"
OTHERS = {
    # Of the system, and of PyTorch in a job: documented there.
    *("PATH", "HOME", "USER", "SUDO_USER", "DISPLAY", "XDG_RUNTIME_DIR", "TERM", "SHELL"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK"),
}
OF_OTHERS = ("SLURM_", "NCCL_", "MLFLOW_", "LD_", "CUDA_", "GIT_", "PIP_", "SSH_")
"""Beginnings of names that belong to these programs."""
APART = {"agents", "testing"}
"""Programs of nodes, whose variables are set by what starts them; simulated clouds."""
ENVIRONMENT = {"environ", "env", "environment", "given", "getenv"}
NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")


def is_environment(node: ast.expr) -> bool:
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return last in ENVIRONMENT


def read_names(tree: ast.Module) -> Iterator[str]:
    """Names that are written out where the environment is read, or as an option's variable."""
    for node in ast.walk(tree):
        keys: list[ast.expr] = []
        if isinstance(node, ast.Subscript) and is_environment(node.value):
            keys = [node.slice]
        elif isinstance(node, ast.Call):
            of = node.func.value if isinstance(node.func, ast.Attribute) else None
            if of is not None and is_environment(of) and node.func.attr == "get":  # type: ignore[union-attr]
                keys = node.args[:1]
            keys += [word.value for word in node.keywords if word.arg == "envvar"]
        elif isinstance(node, ast.Compare) and is_environment(node.comparators[-1]):
            keys = [node.left]
        yield from (
            k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)
        )


def code(folder: Path = SRC) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(folder.rglob("*.py")):
        if not APART & set(file.relative_to(SRC).parts):
            yield file, ast.parse(file.read_text())


def test_what_is_read_is_in_the_table_or_another_programs() -> None:
    known = variables().keys() | IN_JOBS.keys() | OTHERS
    unknown = {
        f"{file.relative_to(SRC)}: {name}"
        for file, tree in code()
        for name in read_names(tree)
        if NAME.fullmatch(name) and name not in known and not name.startswith(OF_OTHERS)
    }
    assert unknown == set()
    tree = ast.parse(
        "import os\nos.environ.get('CORRAL_NEW')\nos.environ['A_B']\n'C_D' in os.environ"
    )
    assert sorted(read_names(tree)) == ["A_B", "CORRAL_NEW", "C_D"]


def constants(tree: ast.Module) -> Iterator[str]:
    """Texts of a module that are a name and nothing else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from NAME.findall(node.value) if NAME.fullmatch(node.value) else ()


def test_names_of_the_table_are_written_there_alone() -> None:
    """Of files that are sent with jobs, which import nothing, the names are compared."""
    apart = {SRC / "variables.py", *(SRC / f"{n}.py" for n in ("checkpoint", "track", "shards"))}
    own = {name for provider in PROVIDERS.values() for name in provider.variables}
    again = {
        f"{file.relative_to(SRC)}: {name}"
        for file, tree in code()
        if file not in apart and SRC / "providers" not in file.parents
        for name in constants(tree)
        if name in VARIABLES.keys() | own
    }
    assert again == set()


def test_each_variable_is_read_somewhere() -> None:
    text = "".join(f.read_text() for f in SRC.rglob("*") if f.suffix in {".py", ".sh", ".yaml"})
    for name in IN_JOBS:
        assert name in text.replace((SRC / "variables.py").read_text(), ""), name
    for name in (name for provider in PROVIDERS.values() for name in provider.variables):
        assert name in text, name


def test_no_variable_of_corrals_own_is_left_out() -> None:
    """By name, wherever it stands: of Python for people and scripts."""
    known = variables().keys() | IN_JOBS.keys() | {"_CORRAL_COMPLETE"}
    inner = {"CORRAL_BOOT", "CORRAL_PROC", "CORRAL_CGROUP", "CORRAL_GPU_PROGRAM", "CORRAL_REPORT"}
    inner |= {"CORRAL_HEALTH_RUN"}
    for file, tree in code():
        used = {name for name in constants(tree) if name.startswith("CORRAL_")}
        assert used <= known | inner, f"{file}: {used - known}"


def test_the_manual_page_has_the_table() -> None:
    page = (REPO / "docs/reference/cli.md").read_text()
    assert all(f"| `{name}` | {meaning} |" in page for name, meaning in variables().items())
