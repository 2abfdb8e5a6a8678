"""What a verb does not use, it does not import: its start is most of a short command's time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.main import GARBAGE

ROOT = Path(__file__).parents[3]
LAPTOP = ROOT / "examples" / "laptop.yaml"
# The web server, clients of clouds and pages of reports: no verb here has any use for them.
NEVER = ("httpx", "tenacity", "fastapi", "uvicorn", "jinja2", "corral.web", "corral.testing")
# What makes machines, and their images.
MAKING = (
    *("corral.providers.containers.image", "corral.providers.containers.recipe"),
    *("corral.providers.slurm_build", "corral.providers.cloud.provider", "backports.zstd"),
    *("corral.providers.cloud.launcher", "corral.providers.cloud.client"),
)
# What compares machines with the file.
PLANNING = (
    *("corral.roles.order", "corral.apply.session", "corral.apply.run", "corral.plan.make"),
    *("corral.mesh.control", "http.client"),
)
SUBMITTING = ("corral.jobs.submit", "corral.jobs.upload.project", "corral.jobs.model", "pathspec")
READING = ("corral.spec.rules", "ruamel.yaml")

LINE = """
import sys
from corral.cli.main import app
app(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""
VERB = """
import sys
from corral import api
from corral.cli.main import load_verb
from corral.providers.lookup import provider_class
load_verb(sys.argv[1])
for name in sys.argv[2:]:
    getattr(api, name)
provider_class("embedded")
print(*sys.modules, file=sys.stderr)
"""


def imported(program: str, *words: str) -> set[str]:
    """Every package and module that a fresh process has when the program ends."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        ((), (*NEVER, *MAKING, *PLANNING, *SUBMITTING, "corral.hosts.openssh")),
        (("--help",), (*NEVER, "pydantic", "rich", "ruamel", "asyncio", "corral.api")),
        (
            ("lint", str(LAPTOP)),
            (*NEVER, *MAKING, *PLANNING, *SUBMITTING, "corral.hosts.openssh"),
        ),
    ],
    ids=["nothing", "--help", "lint"],
)
def test_a_command_line_imports_nothing_that_it_does_not_use(
    words: tuple[str, ...], forbidden: tuple[str, ...]
) -> None:
    assert sorted(imported(LINE, *words).intersection(forbidden)) == []


@pytest.mark.parametrize(
    ("verb", "uses", "forbidden"),
    [
        ("plan", ("load", "plan"), (*NEVER, *MAKING[:2], *SUBMITTING)),
        (
            "status",
            ("is_path", "spec_of", "status"),
            (*NEVER, *MAKING, *PLANNING, *SUBMITTING, "ruamel.yaml"),
        ),
        (
            "jobs",
            ("is_path", "spec_of", "jobs"),
            (*NEVER, *MAKING, *PLANNING, *SUBMITTING, *READING),
        ),
        ("logs", ("is_path", "spec_of", "logs"), (*NEVER, *MAKING, *PLANNING, *SUBMITTING)),
        ("cancel", ("is_path", "spec_of", "cancel"), (*NEVER, *MAKING, *PLANNING, *SUBMITTING)),
        (
            "run",
            ("is_path", "spec_of", "job_spec", "run"),
            (*NEVER, *MAKING, *PLANNING, "pathspec"),
        ),
        ("doctor", ("is_path", "spec_of", "doctor"), (*NEVER, *MAKING, *SUBMITTING)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_verb_imports_nothing_that_it_does_not_use(
    verb: str, uses: tuple[str, ...], forbidden: tuple[str, ...]
) -> None:
    assert sorted(imported(VERB, verb, *uses).intersection(forbidden)) == []


def test_garbage_is_seldom_looked_for() -> None:
    program = "import gc, sys\nfrom corral.cli.main import main\n"
    program += "try: main()\nexcept SystemExit: print(gc.get_threshold()[0], file=sys.stderr)\n"
    assert imported(program, "--version") == {str(GARBAGE)}


def test_the_end_frees_nothing() -> None:
    program = "import gc, sys\nfrom corral.cli.main import main\n"
    program += (
        "try: main()\nexcept SystemExit: print(len(gc.get_objects()) < 1000, file=sys.stderr)\n"
    )
    assert imported(program, "--version") == {"True"}
