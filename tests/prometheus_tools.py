"""``promtool`` and ``prometheus``, built from Go's module proxy at a pinned version.

Tests take them from CORRAL_TEST_PROMTOOL and CORRAL_TEST_PROMETHEUS, from PATH, or from where
``python -m tests.prometheus_tools`` builds them (10 minutes on 2 cores, 1 GB, once; Go 1.26).
They are built in the module's own source, as it names workspaces that the module lacks, and without
service discovery of clouds (remove_all_sd), which is most of their size.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

VERSION = "v0.316.0"
"""Of Prometheus 3.16: modules of Go count so."""
NAMES = ("promtool", "prometheus")
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -trimpath", "GOWORK": "off"}


def folder() -> Path:
    """Where the programs of this version are built."""
    return Path(platformdirs.user_cache_dir("corral")) / "prometheus-tools" / VERSION


def find(name: str) -> Path | None:
    """One of the programs; None where there is none."""
    named = os.environ.get(f"CORRAL_TEST_{name.upper()}") or shutil.which(name)
    path = Path(named) if named else folder() / name
    return path if path.is_file() else None


def missing(name: str) -> str:
    """Why a test that needs the program skips; "" where it is there."""
    if find(name):
        return ""
    return (
        f"no {name} in CORRAL_TEST_{name.upper()} or PATH: "
        "python -m tests.prometheus_tools builds it with Go"
    )


def build() -> Path:
    """Build what is missing; gives the folder."""
    target = folder()
    absent = [name for name in NAMES if not (target / name).exists()]
    if not absent:
        return target
    target.mkdir(parents=True, exist_ok=True)
    work = target / f"new-{os.getpid()}"
    try:
        module = f"github.com/prometheus/prometheus@{VERSION}"
        work.mkdir()
        source = json.loads(_run("go", "mod", "download", "-json", module, cwd=work))["Dir"]
        shutil.copytree(source, work / "source", copy_function=shutil.copyfile)
        for name in absent:
            flags = ("-tags", "remove_all_sd", "-ldflags", "-s -w")
            made = work / name
            _run("go", "build", *flags, "-o", str(made), f"./cmd/{name}", cwd=work / "source")
            made.replace(target / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _run(*argv: str, cwd: Path) -> str:
    env = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    print(build(), file=sys.stdout)
