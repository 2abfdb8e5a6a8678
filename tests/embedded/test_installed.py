"""Corral as a stranger installs it: its wheel in a fresh environment, and a rehearsal from there.

Each CI run installs the wheel by pip with the dependencies that it declares, from the index, and
brings up a rehearsal with those of the tests; the paths by pipx and by uv are slow.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import packages_distributions
from pathlib import Path

import pydantic
import pytest
from tests.embedded.conftest import EXAMPLES, needs
from tests.unit.test_imported_packages import NAMES, UNDECLARED, imports_of

from corral.extras import own_version, wheel_name

REPO = Path(__file__).parents[2]
LIMIT_S = 900
_NO_INDEX = "No matching distribution found"


def ran(*words: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a folder outside of the checkout, with a separate state folder."""
    known = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "CORRAL_STATE_DIR": str(folder / "state"),
        "LC_ALL": "C.UTF-8",
    }
    own_index = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env={**own_index, **known, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def good(*words: str | Path, folder: Path, **environment: str) -> str:
    done = ran(*words, folder=folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, as an index would have both."""
    folder = tmp_path_factory.mktemp("dist")
    good(sys.executable, "-m", "hatchling", "build", "-d", folder, folder=REPO)
    return folder / wheel_name()


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of an environment with the wheel, without an index.

    Of its dependencies it has those of the tests. A line of a .pth file adds a folder and not what
    .pth files in that folder add: the checkout, which is editable there, is not seen.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    python = folder / "bin/python"
    words = ("-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", wheel)
    good(sys.executable, *words, folder=folder)
    (site,) = (folder / "lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(f"{Path(pydantic.__file__).parents[1]}\n")
    return folder / "bin/corral"


def rehearsed(corral: Path, folder: Path) -> dict[str, str]:
    """A rehearsal of an example from its first command to its last: the verdict of each check."""
    text = (EXAMPLES / "lab-3x5090.yaml").read_text()
    name = f"installed-{os.getpid()}"
    (folder / "lab.yaml").write_text(text.replace("name: lab\n", f"name: {name}\n", 1))
    try:
        brought = ran(corral, "up", "lab.yaml", "--rehearse", "--yes", "--json", folder=folder)
        assert brought.returncode == 0, brought.stdout[-3000:] + brought.stderr[-3000:]
        proof = json.loads(brought.stdout)["proof"]
        assert proof["good"], proof
        assert proof["without"] == proof["only"] == []
    finally:
        gone = ran(corral, "down", "lab.yaml", "--rehearse", "--yes", folder=folder)
    assert gone.returncode == 0, gone.stdout + gone.stderr
    return {row["check"]: row["verdict"] for row in proof["results"]}


def test_the_wheel_brings_up_a_rehearsal(fresh: Path, tmp_path: Path) -> None:
    reason = needs()
    if reason:
        pytest.skip(reason)
    where = good(
        fresh.parent / "python", "-c", "import corral; print(corral.__file__)", folder=tmp_path
    )
    assert Path(where.strip()).is_relative_to(fresh.parents[1])
    verdicts = rehearsed(fresh, tmp_path)
    assert verdicts["smoke.launch"] == verdicts["multinode.ranks"] == "pass", verdicts


PROGRAM = """
import sys
from importlib.util import find_spec
print(*(name for name in sys.argv[1:] if find_spec(name) is None))
"""


def of_extras() -> set[str]:
    """Modules of the packages that the extras name, and the base does not."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    lines = [line for extra in project["optional-dependencies"].values() for line in extra]
    names = {re.split(r"[<>=\[]", line)[0].lower() for line in lines}
    known = packages_distributions().items()
    return {module for module, of in known if names & {name.lower() for name in of}}


def test_the_wheel_has_all_that_it_declares(wheel: Path, tmp_path: Path) -> None:
    """Installed from the index, without the packages of the tests and without an extra."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env/bin/python"
    cache = good(sys.executable, "-m", "pip", "cache", "dir", folder=Path.home()).strip()
    words = ("-m", "pip", "--python", python, "install", "-q", wheel)
    done = ran(sys.executable, *words, folder=tmp_path, PIP_CACHE_DIR=cache)
    if done.returncode and "CI" not in os.environ and _NO_INDEX in done.stderr:
        pytest.skip(f"no index: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    corral = tmp_path / "env/bin/corral"
    works(corral, tmp_path)
    names = {name for _, name in imports_of(REPO)} - {*UNDECLARED, *NAMES}
    missing = good(python, "-c", PROGRAM, *sorted(names), folder=tmp_path).split()
    assert {*missing} - of_extras() == set(), "packages of the base that are not declared"
    page = ran(corral, "ui", "first.yaml", folder=tmp_path)
    assert "needs Python packages that are not installed" in page.stderr, page.stderr
    assert f"hint: {python} -m pip install " in page.stderr
    assert "fastapi" in page.stderr


def tool(name: str, folder: Path) -> Path:
    """pipx or uv, from the index of pip's settings."""
    venv.create(folder, with_pip=True)
    done = ran(folder / "bin/python", "-m", "pip", "install", "-q", name, folder=folder)
    if done.returncode:
        pytest.skip(f"no {name}: {done.stderr[-300:]}")
    return folder / "bin" / name


def works(corral: Path, folder: Path) -> None:
    """A stranger's first commands, from a folder that has nothing of the checkout."""
    assert good(corral, "--version", folder=folder).split() == ["corral", own_version()]
    good(corral, "init", "laptop", "-o", "first.yaml", folder=folder)
    good(corral, "lint", "first.yaml", folder=folder)
    answer = json.loads(good(corral, "version", "--check", "--json", folder=folder))
    assert (answer["kind"], answer["check"]["state"]) == ("file", "current")
    assert Path(answer["origin"]).name == wheel_name()


@pytest.mark.slow
def test_pipx_installs_the_wheel_and_a_rehearsal_comes_up(wheel: Path, tmp_path: Path) -> None:
    reason = needs()
    if reason:
        pytest.skip(reason)
    pipx = tool("pipx", tmp_path / "tool")
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    places["PIPX_MAN_DIR"] = str(tmp_path / "man")
    good(pipx, "install", f"{wheel}[clouds,web]", folder=tmp_path, **places)
    corral = tmp_path / "bin/corral"
    works(corral, tmp_path)
    assert (tmp_path / "man/man1/corral-run.1").is_file(), "man corral-run finds it"
    verdicts = rehearsed(corral, tmp_path)
    assert verdicts["smoke.launch"] == verdicts["multinode.ranks"] == "pass", verdicts
    good(pipx, "uninstall", "corral", folder=tmp_path, **places)
    assert not corral.exists()


@pytest.mark.slow
def test_uv_installs_the_wheel_as_a_tool(wheel: Path, tmp_path: Path) -> None:
    uv = tool("uv", tmp_path / "tool")
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    index = ran(
        tmp_path / "tool/bin/python",
        "-m",
        "pip",
        "config",
        "get",
        "global.index-url",
        folder=tmp_path,
    )
    if address := os.environ.get("PIP_INDEX_URL") or index.stdout.strip():
        places["UV_DEFAULT_INDEX"] = address
    if certificates := os.environ.get("PIP_CERT", ""):
        places["SSL_CERT_FILE"] = certificates  # uv has its own where the index has a private one
    places["UV_PYTHON"] = shutil.which(f"python3.{sys.version_info.minor}") or sys.executable
    good(uv, "tool", "install", wheel, folder=tmp_path, **places)
    works(tmp_path / "bin/corral", tmp_path)
