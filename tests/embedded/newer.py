"""A newer Slurm for Debian 13: packages of Debian's development release, from the host's archive.

CORRAL_TEST_DEBS names a folder that holds them already.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from corral.providers.containers import archive

SLURM = (
    *("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurm-client", "sackd"),
    *("slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "slurm-wlm-jwt-plugin"),
)
HEADERS = "libslurm-dev"
"""For Pyxis."""
LIBRARIES = (
    # What 26.05 needs newer than Debian 13 has it, and what these would break there (torch's).
    *("libllhttp9.4", "libhwloc15", "libhwloc-plugins", "libpmix2t64", "libxml2-16", "libze1"),
)


def newer_debs(folder: Path) -> Path:
    """The folder with the packages; the test is skipped where they are not available."""
    given = os.environ.get("CORRAL_TEST_DEBS", "")
    if given:
        return Path(given)
    if not shutil.which("apt-get"):
        pytest.skip("newer packages of Slurm: no apt-get here and no CORRAL_TEST_DEBS")
    host = archive.host_release()
    if host.get("ID") != "debian":
        pytest.skip("newer packages of Slurm: not a Debian host and no CORRAL_TEST_DEBS")
    sources = archive.for_suite(
        archive.host_sources(), host["VERSION_CODENAME"], "sid", {"": ("main",)}
    )
    lines = [
        replace(s, signed_by="").line().replace("deb ", f"deb [signed-by={s.signed_by}] ", 1)
        if s.signed_by.startswith("/")
        else s.line()
        for s in sources
    ]
    for name in ("lists/partial", "cache/archives/partial", "debs"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text("\n".join(lines) + "\n")
    (folder / "status").touch()
    options = {
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "APT::Sandbox::User": "root",
    }
    flags = [flag for key, value in options.items() for flag in ("-o", f"{key}={value}")]

    def apt(*words: str) -> str:
        done = subprocess.run(
            [words[0], *flags, *words[1:]],
            cwd=folder / "debs",
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode != 0:
            pytest.skip(f"newer packages of Slurm are not available here: {done.stderr[-300:]}")
        return done.stdout

    apt("apt-get", "update", "-q")
    # The library that the headers belong to has the number of its interface in its name.
    library = re.findall(r"Depends: (libslurm\d\S*)", apt("apt-cache", "depends", HEADERS))
    apt("apt-get", "download", "-q", *SLURM, HEADERS, *library, *LIBRARIES)
    return folder / "debs"
