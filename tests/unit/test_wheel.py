"""Corral as a wheel in a fresh environment, without a network; its name in one place."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pydantic
import pytest

from corral.extras import DISTRIBUTION, own_version, wheel_name
from corral.roles.services.corral_wheels import own_wheel

pytestmark = pytest.mark.timeout(900)
"""A fresh environment has no compiled modules, and other tests run meanwhile."""


def ran(*words: str | Path, folder: Path) -> str:
    done = subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "CORRAL_STATE_DIR": str(folder / "s")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as pip builds it, by the backend that pyproject.toml names."""
    folder = tmp_path_factory.mktemp("wheel")
    ran(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, folder=repo)
    return folder / wheel_name()


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it; of its dependencies those that these tests have.

    A line of a .pth file adds a folder, and not what .pth files in that folder add: so the
    checkout, which is editable there, is not seen.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env/bin/python"
    words = ("-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", wheel)
    ran(sys.executable, *words, folder=folder)
    (site,) = (folder / "env/lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(f"{Path(pydantic.__file__).parents[1]}\n")
    return folder


def test_the_file_has_the_name_that_plans_give_it(wheel: Path) -> None:
    assert wheel.is_file()
    assert own_wheel()[0].file == wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "corral/py.typed" in names
    assert f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info/METADATA" in names
    data = [n for n in names if n.startswith("corral/agents/") and n.endswith(".sh")]
    assert data, "programs of nodes are in it"


def test_it_runs_from_a_folder_without_the_checkout(fresh: Path, repo: Path) -> None:
    corral = fresh / "env/bin/corral"
    assert "corral init -o laptop.yaml" in ran(corral, "--help", folder=fresh)
    assert ran(corral, "--version", folder=fresh).split() == ["corral", own_version()]
    ran(corral, "init", "laptop", "-o", "lab.yaml", folder=fresh)
    ran(corral, "lint", "lab.yaml", folder=fresh)
    program = "import corral; print(corral.__file__)"
    where = ran(fresh / "env/bin/python", "-c", program, folder=fresh).strip()
    assert Path(where).is_relative_to(fresh)
    assert not Path(where).is_relative_to(repo)


def test_the_types_are_seen_by_checkers(fresh: Path) -> None:
    program = (
        "from importlib.resources import files; print((files('corral') / 'py.typed').is_file())"
    )
    assert ran(fresh / "env/bin/python", "-c", program, folder=fresh).strip() == "True"


def test_the_name_of_the_package_is_in_one_place(repo: Path) -> None:
    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    named = re.compile(
        r"""\b(?:version|requires|distribution)\(["']corral["']\)|"""
        r"""corral-.*(?:whl|dist-info)|Name: corral"""
    )
    wrong = [
        str(file.relative_to(repo))
        for file in (repo / "src").rglob("*.py")
        if named.search(file.read_text())
    ]
    assert wrong == []
