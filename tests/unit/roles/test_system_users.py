"""The names of system users that Corral makes are not for people."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import corral
from corral.spec.rules.shared_resources import system

SOURCE = Path(corral.__file__).parent


def system_users() -> Iterator[tuple[str, str]]:
    """Module and name of each ``UserAccount(..., system=True)``."""
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text()
        if "UserAccount(" not in text:
            continue
        module = ".".join(("corral", *file.relative_to(SOURCE).with_suffix("").parts))
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "UserAccount":
                continue
            if any(word.arg == "system" for word in node.keywords):
                name = eval(ast.unparse(node.args[0]), vars(import_module(module)))  # noqa: S307
                yield module, name


def test_each_system_user_is_reserved() -> None:
    """``corral-web`` and ``corral-metrics`` could be declared as people."""
    users = dict(system_users())
    assert {"slurmrestd", "corral-web", "corral-metrics", "corral-mlflow"} <= {*users.values()}
    assert {name for name in users.values() if name not in system().names} == set()
