"""What is asked of Slurm is written in ``inspect`` and ``slurm``, with its reader."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import corral

SOURCE = Path(corral.__file__).parent
OWN = ("inspect", "slurm", "agents")
RAW = re.compile(
    r"scontrol show (?:config|node|partition|job\b)|sacctmgr [^|;]*\bshow \w+|srun --mpi=list"
    r"|\bsinfo\b|squeue [^|;]*?(?:-o |--format[= ])(?='|%\w[^ |);\"]*%)"
)
ALLOWED = {
    # The script itself decides; nothing is read out of it here.
    "roles/slurm/controller.py": {"sacctmgr"},
    "roles/slurm/packages.py": {"sinfo"},
    "roles/slurm/compute.py": {"sinfo"},
    "roles/slurm/login_nodes.py": {"sinfo"},
    # The probe of a resource, with its own reader.
    "state/slurm/accounts.py": {"sacctmgr"},
}
"""Modules that write such a command themselves, and which."""


def shells(tree: ast.Module) -> Iterator[str]:
    """Literals that are given to ``sh`` and ``Script``, also by a constant of the module."""
    calls = [
        arg
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("sh", "Script")
        for arg in node.args[:1]
    ]
    names = {arg.id for arg in calls if isinstance(arg, ast.Name)}
    constants = [
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if node.target.id in names and node.value
    ]
    for value in (*calls, *constants):
        for part in ast.walk(value):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def raw(text: str) -> set[str]:
    return {
        match[0].split()[0] for shell in shells(ast.parse(text)) for match in RAW.finditer(shell)
    }


def test_commands_of_slurm_are_written_with_their_readers() -> None:
    seen = {
        name: commands
        for file in SOURCE.rglob("*.py")
        if (name := str(file.relative_to(SOURCE))).partition("/")[0] not in OWN
        if (commands := raw(file.read_text()) - ALLOWED.get(name, set()))
    }
    assert not seen, "use a Question of corral.inspect, or a command and reader of corral.slurm"


def test_no_module_is_allowed_what_it_does_not_write() -> None:
    for name, commands in ALLOWED.items():
        assert commands <= raw((SOURCE / name).read_text()), name


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("sh(\"scontrol show config | sed -n 's/^A *= *//p'\")", {"scontrol"}),
        ("_A: Final = 'x; sacctmgr -nP show qos'\nsh(_A)", {"sacctmgr"}),
        ("sh('squeue -h -o \\'%i %u\\'')", {"squeue"}), ("sh('squeue -h -o %i:%u')", {"squeue"}),
        ("sh('srun --mpi=list 2>&1')", {"srun"}), ("Script('sinfo -h')", {"sinfo"}),
        ("hint('scontrol show config')", set()), ("sh('squeue -h -o %T; squeue -o %i')", set()),
        ("sh('squeue -h -o {format}', format=f)", set()),
        ("sh('scontrol show hostnames $L')", set()),
    ],
)  # fmt: skip
def test_a_command_that_is_written_elsewhere_is_seen(text: str, commands: set[str]) -> None:
    assert raw(text) == commands
