"""An OpenID provider, built from Go's module proxy at a pinned version.

Tests take it from CORRAL_TEST_OIDC_PROVIDER or from where ``python -m tests.oidc_provider`` builds
it (some seconds, Go 1.26): zitadel's certified library with its example's storage and login form.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

VERSION = "v3.52.0"
MODULE = "github.com/zitadel/oidc/v3"
PROGRAMS = Path(__file__).parent / "browser" / "programs"
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -trimpath", "GOWORK": "off"}


def path() -> Path:
    """Where the program of this version is built."""
    return Path(platformdirs.user_cache_dir("corral")) / "oidc-provider" / VERSION / "provider"


def find() -> Path | None:
    """The program; None where there is none and no Go to build it with."""
    named = os.environ.get("CORRAL_TEST_OIDC_PROVIDER", "")
    if named:
        return Path(named)
    if path().is_file():
        return path()
    return build() if shutil.which("go") else None


def build() -> Path | None:
    """Build it; None where its source is not available."""
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    work = target.parent / f"new-{os.getpid()}"
    try:
        work.mkdir()
        downloaded = _run("go", "mod", "download", "-json", f"{MODULE}@{VERSION}", cwd=work)
        source = work / "source"
        shutil.copytree(json.loads(downloaded)["Dir"], source, copy_function=shutil.copyfile)
        own = source / "example" / "corral"
        own.mkdir()
        shutil.copyfile(PROGRAMS / "oidc_provider.go", own / "main.go")
        storage = source / "example" / "server" / "storage"
        shutil.copyfile(PROGRAMS / "oidc_provider_client.go", storage / "page_client.go")
        _run("go", "build", "-o", str(work / "made"), "./example/corral", cwd=source)
        (work / "made").replace(target)
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return None
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
