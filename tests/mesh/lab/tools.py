"""The mesh's programs, built from Go's module proxy at pinned versions and kept in the cache.

``tailscaled`` comes by ``go install``, without what no test needs, and is ``tailscale`` too by
that name (its own build_dist.sh does the same for small machines). headscale is built from its
module's source as the main module: ``go install`` of it asks the proxy for the list of all its
versions (for notes of deprecation), which not every proxy answers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import platformdirs

TAILSCALE = "v1.102.5"
HEADSCALE = "v0.29.3"
NEEDS_GO = (1, 26)
NAMES = ("tailscale", "tailscaled", "headscale")
LEFT_OUT = (
    *("acme", "appconnectors", "aws", "bird", "capture", "clientupdate", "cloud", "completion"),
    *("desktop_sessions", "drive", "identityfederation", "kube", "oauthkey", "relayserver"),
    *("serve", "ssh", "synology", "systray", "taildrop", "tap", "tpm", "wakeonlan", "webclient"),
)
"""Features of tailscaled that are not built: of 827 packages 612 are left."""
ENVIRONMENT = {
    "CGO_ENABLED": "0",  # static: they run in nodes of another system
    "GOFLAGS": "-buildvcs=false -trimpath -ldflags=-s -ldflags=-w",
}


def folder() -> Path:
    """Where the programs of these versions are."""
    cache = Path(platformdirs.user_cache_dir("corral")) / "mesh-tools"
    return cache / f"tailscale-{TAILSCALE}-headscale-{HEADSCALE}"


def needs() -> str:
    """Why the programs are neither there nor can be built here, "" when they are available."""
    if all((folder() / name).exists() for name in NAMES):
        return ""
    if not shutil.which("go"):
        return "Go is not installed: tailscaled and headscale are built with it"
    if _go() < NEEDS_GO:
        return f"Go {'.'.join(map(str, NEEDS_GO))} or newer builds tailscaled and headscale"
    return ""


def build() -> Path:
    """Build what is missing; gives the folder."""
    target = folder()
    if all((target / name).exists() for name in NAMES):
        return target
    target.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    print("building tailscale, tailscaled and headscale: minutes, once", flush=True)
    work = target / f"new-{os.getpid()}"
    work.mkdir()
    try:
        tags = ",".join(("ts_include_cli", *(f"ts_omit_{name}" for name in LEFT_OUT)))
        daemon = f"tailscale.com/cmd/tailscaled@{TAILSCALE}"
        _run("go", "install", "-tags", tags, daemon, cwd=work, GOBIN=str(work))
        shutil.copy2(work / "tailscaled", work / "tailscale")
        _headscale(work)
        for name in NAMES:
            (work / name).replace(target / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    return target


def _headscale(work: Path) -> None:
    module = f"github.com/juanfont/headscale@{HEADSCALE}"
    download = json.loads(_run("go", "mod", "download", "-json", module, cwd=work))
    source = work / "source"
    shutil.copytree(download["Dir"], source, copy_function=shutil.copyfile)
    source.chmod(0o755)
    _run("go", "build", "-o", str(work / "headscale"), "./cmd/headscale", cwd=source)


def _go() -> tuple[int, ...]:
    version = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True)
    match = re.match(r"go(\d+)\.(\d+)", version.stdout.strip())
    return tuple(map(int, match.groups())) if match else (0,)


def _run(*argv: str, cwd: Path, **more: str) -> str:
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **ENVIRONMENT, **more},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-3000:]}")
    return done.stdout
