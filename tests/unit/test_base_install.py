"""Corral without its extras, and what it reports of one that is not installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from corral.extras import DISTRIBUTION, missing_extra, packages_of

# Packages of the extras, as if they were not there; then all that a verb may import.
PROGRAM = """
import importlib, pkgutil, sys
for name in ("httpx", "tenacity", "fastapi", "uvicorn", "starlette"):
    sys.modules[name] = None
import corral.api, corral.cli
failed = []
for room in (corral.api, corral.cli):
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            failed.append(f"{module.name}: {error}")
print("\\n".join(failed))
"""


def test_no_verb_needs_a_package_of_an_extra_to_begin() -> None:
    """A fresh clone's ./demo once ended with "No module named 'httpx'"."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_a_missing_extra_is_answered_with_a_command_that_works_everywhere(repo: Path) -> None:
    """The hint once named corral[web], which no index has."""
    lock = (repo / "requirements.lock").read_text()
    for extra in ("web", "clouds"):
        names = [re.split(r"[<>=[]", package)[0] for package in packages_of(extra)]
        assert names
        hint = missing_extra(extra, "the page", "some_module").hint
        assert hint.startswith(f"{sys.executable} -m pip install ")
        assert all(name in hint for name in names)
        # ./demo's environment can run all that README shows.
        assert [name for name in names if not re.search(rf"^{name}==", lock, re.MULTILINE)] == []


def test_no_text_names_an_extra_of_a_package_that_no_index_has(repo: Path) -> None:
    texts = [*(repo / "src").rglob("*.py"), *(repo / "docs").rglob("*.md"), repo / "README.md"]
    wrong = [str(f.relative_to(repo)) for f in texts if f"{DISTRIBUTION}[" in f.read_text()]
    assert wrong == ["src/corral/extras.py"]  # whose comment states why
