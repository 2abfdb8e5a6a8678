"""``promtool`` and ``prometheus``: the distribution's, or built at a pinned version.

Tests take them from CORRAL_TEST_PROMTOOL and CORRAL_TEST_PROMETHEUS, from PATH, from where
``python -m tests.prometheus_tools`` builds them from Go's module proxy (10 minutes on 2 cores,
1 GB, once; Go 1.26), or from where ``--package``, which ``./test unit`` calls, unpacks the
distribution's package (19 MB): it brings no service and no dependencies, and needs no root.
They are built in the module's own source, as it names workspaces that the module lacks, and without
service discovery of clouds (remove_all_sd), which is most of their size.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

VERSION = "v0.316.0"
"""Of Prometheus 3.16: modules of Go count so."""
LEAST = "2.42"
"""Of Debian 12: the oldest package whose programs these tests were seen to pass with."""
NAMES = ("promtool", "prometheus")
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -trimpath", "GOWORK": "off"}


def folder() -> Path:
    """Where the programs of this version are built."""
    return Path(platformdirs.user_cache_dir("corral")) / "prometheus-tools" / VERSION


def packaged() -> Path:
    """Where the distribution's are unpacked."""
    return folder().parent / "package"


def find(name: str) -> Path | None:
    """One of the programs; None where there is none."""
    named = os.environ.get(f"CORRAL_TEST_{name.upper()}") or shutil.which(name)
    places = [Path(named)] if named else [folder() / name, packaged() / name]
    return next((path for path in places if path.is_file()), None)


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


def unpack() -> str:
    """Unpack the distribution's package; why there is none, "" where the programs are there."""
    target = packaged()
    if all(find(name) for name in NAMES):
        return ""
    target.mkdir(parents=True, exist_ok=True)
    work = target / f"new-{os.getpid()}"
    quick = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=20")
    try:
        work.mkdir()
        offered = _run("apt-cache", "show", "--no-all-versions", "prometheus", cwd=work)
        version = re.search(r"^Version: (\S+)", offered, re.MULTILINE)
        if version is None:
            return "apt knows no package prometheus"
        _run("dpkg", "--compare-versions", version[1], "ge", LEAST, cwd=work)
        _run("apt-get", "-q", *quick, "download", "prometheus", cwd=work)
        (package,) = work.glob("*.deb")
        _run("dpkg-deb", "-x", str(package), "root", cwd=work)
        for name in NAMES:
            (work / "root/usr/bin" / name).replace(target / name)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return ""


def _run(*argv: str, cwd: Path) -> str:
    env = {**os.environ, **ENVIRONMENT}
    limit = None if argv[0] == "go" else 120
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=limit)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["--package"]:
        if why := unpack():
            print(f"tests by promtool and prometheus skip: {why}", file=sys.stderr)
    else:
        print(build(), file=sys.stdout)
