"""What requirements.lock installs is enough for all but the clouds and the page's server."""

from __future__ import annotations

import subprocess
import sys

# Packages of the extras, as if they were not there; then all that a verb may import.
PROGRAM = """
import importlib, pkgutil, sys
for name in ("httpx", "fastapi", "uvicorn", "starlette"):
    sys.modules[name] = None
import corral.api, corral.cli
failed = []
for room in (corral.api, corral.cli):
    for module in pkgutil.iter_modules(room.__path__, room.__name__ + "."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            failed.append(f"{module.name}: {error}")
print("\\n".join(failed))
"""


def test_no_verb_needs_a_package_of_an_extra_to_begin() -> None:
    """A fresh clone's ./demo once ended with "No module named 'httpx'"."""
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    # Sets of keys and rules are a cloud's own; no other module imports that one as it begins.
    assert [line.partition(":")[0] for line in told.stdout.split("\n") if line] == [
        "corral.api.cloud_sets"
    ]
