"""How JupyterLab is started in a job: its token is the user's alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral import agents

PROGRAM = agents.FOLDER / "jobs/notebook_server.py"
# In place of a Python: has JupyterLab where there is a file `has`, and shows how it is started.
PYTHON = """\
#!/bin/sh
case "$2" in *"import jupyterlab") exec [ -e "${0%/*}/has" ] ;; esac
pwd
env
printf 'argv %s\\n' "$*"
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "python3"
    path.parent.mkdir()
    path.write_text(PYTHON)
    path.chmod(0o755)
    return path


def started(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "CORRAL_JOB_FOLDER": str(folder),
        "HOME": str(folder / "home"),
        "JUPYTER_TOKEN": "old",
        "SLURMD_NODENAME": "node1",
    }
    (folder / "home").mkdir()
    argv = [sys.executable, str(PROGRAM), *words]
    return subprocess.run(
        argv, env=environ, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.enable_socket
def test_the_token_is_in_files_of_the_user_alone(python: Path, tmp_path: Path) -> None:
    (python.parent / "has").touch()
    done = started(tmp_path, "--home", "--python", str(python))
    assert done.returncode == 0, done.stderr
    place = json.loads((tmp_path / "notebook.json").read_text())
    token = place["token"]
    assert len(token) >= 32
    assert place["node"] == "node1"
    assert token not in done.stdout + done.stderr  # argument list, environment, log
    assert "JUPYTER_TOKEN=" not in done.stdout
    assert f"JUPYTER_TOKEN_FILE={tmp_path}/notebook.token" in done.stdout
    assert (tmp_path / "notebook.token").read_text() == token
    for name in ("notebook.json", "notebook.token"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    argv = done.stdout.rpartition("argv ")[2]
    # With -m Python takes modules of the current folder first.
    assert argv.startswith(
        "-c import sys; sys.path.pop(0); from jupyterlab.labapp import main; main()"
    )
    assert f" --no-browser --ip=127.0.0.1 --port={place['port']} " in argv
    assert done.stdout.startswith(f"{tmp_path}/home\n")
    assert argv.rstrip().endswith(f"--ServerApp.root_dir={tmp_path}/home")


@pytest.mark.enable_socket
def test_without_home_it_shows_the_folder_it_is_in(python: Path, tmp_path: Path) -> None:
    (python.parent / "has").touch()
    done = started(tmp_path, "--python", str(python))
    assert f"--ServerApp.root_dir={tmp_path}\n" in done.stdout


@pytest.mark.parametrize("there", [True, False])
def test_a_python_without_jupyterlab_is_named(python: Path, tmp_path: Path, there: bool) -> None:
    path = python if there else tmp_path / "none"
    done = started(tmp_path, "--python", str(path))
    assert done.returncode == 1
    assert json.loads((tmp_path / "notebook.json").read_text()) == {"missing": str(path)}
    assert not (tmp_path / "notebook.token").exists()
