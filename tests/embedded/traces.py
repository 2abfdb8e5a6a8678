"""What a cluster of containers has on this machine, whatever other tests make there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from corral.state_dir import cluster_dir


def out(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def containers_of(cluster: str) -> list[str]:
    """Complete ids of its containers, running or not."""
    filtered = ["--no-trunc", "--filter", f"label=corral.cluster={cluster}"]
    return out("podman", "ps", "-aq", *filtered).split()


def gateway_of(container: str) -> str:
    """The address that this machine has in the container's network."""
    gateways = "{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}"
    return out("podman", "inspect", "--format", gateways, container).split()[0]


def traces(cluster: str, ids: list[str], gateway: str) -> dict[str, list[str]]:
    """Everything on this machine that speaks of the cluster, by where it was found."""
    commands: list[str] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                words += (folder / "cgroup").read_text()
            except OSError:
                continue
            if any(i in words for i in ids):
                commands.append(words[:200])
    mounts = Path("/proc/mounts").read_text().splitlines()
    listing = {
        "containers": out("podman", "ps", "--all", "--format", "{{.Names}}"),
        "networks": out("podman", "network", "ls", "--format", "{{.Name}}"),
        "volumes": out("podman", "volume", "ls", "--format", "{{.Name}}"),
    }
    places = {k: [n for n in v.split() if cluster in n] for k, v in listing.items()}
    places["processes"] = commands
    places["mounts"] = [m for m in mounts if any(i in m for i in ids)]
    places["links"] = [v for v in out("ip", "-o", "addr").splitlines() if f" {gateway}/" in v]
    places["files"] = [str(p) for p in cluster_dir(cluster, create=False).glob("*")]
    return places
