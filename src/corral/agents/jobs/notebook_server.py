# Installed as: code/notebook_server.py in the job's folder (api/workload/notebook)
# Started by: srun, in the notebook's job
# Runs as: the job's user
"""Becomes JupyterLab on a free port of the node's loopback.

    python3 notebook_server.py [--home] [--python PATH]

``$CORRAL_JOB_FOLDER/notebook.json``, for the job's user alone, holds node, port and token; or
``missing``, the Python that has no JupyterLab. JupyterLab reads the token from a file: argument
lists are everybody's to read, kernels inherit the environment, and a token that it makes itself
would be in its log.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

OWN_PATH = "import sys; sys.path.pop(0); "
"""Without it Python looks into the current folder first, where others may write."""


def main() -> int:
    """Start it; returns only where it cannot be started."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    folder = Path(os.environ["CORRAL_JOB_FOLDER"])
    if not has_jupyterlab(asked.python):
        print(f"corral: {asked.python} has no JupyterLab", file=sys.stderr)
        write(folder / "notebook.json", json.dumps({"missing": asked.python}))
        return 1
    home = Path.home()
    if asked.home and home.is_dir():
        os.chdir(home)
    token = secrets.token_urlsafe(32)
    write(folder / "notebook.token", token)
    os.environ.pop("JUPYTER_TOKEN", None)
    os.environ["JUPYTER_TOKEN_FILE"] = str(folder / "notebook.token")
    # Files with keys: a home may not be writable, or be a file system that ignores their mode.
    os.environ.setdefault("JUPYTER_RUNTIME_DIR", str(folder / "jupyter"))
    port = free_port()
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    write(folder / "notebook.json", json.dumps({"node": node, "port": port, "token": token}))
    start = f"{OWN_PATH}from jupyterlab.labapp import main; main()"
    words = [asked.python, "-c", start, "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    words += ["--ServerApp.port_retries=0", f"--ServerApp.root_dir={Path.cwd()}"]
    os.execvp(words[0], words)  # noqa: S606  # no shell in between


def has_jupyterlab(python: str) -> bool:
    """Whether a Python can import it."""
    try:
        return subprocess.call([python, "-c", f"{OWN_PATH}import jupyterlab"]) == 0
    except OSError:
        return False


def free_port() -> int:
    """A port of the loopback that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def write(path: Path, text: str) -> None:
    """Write a file that its owner alone can read: complete, or not at all."""
    new = path.with_name(f".{path.name}")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


if __name__ == "__main__":
    sys.exit(main())
