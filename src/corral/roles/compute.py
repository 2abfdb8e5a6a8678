"""Compute nodes: slurmd, configless, registered with the controller."""

from __future__ import annotations

import hashlib

from corral.hosts.quote import sh
from corral.roles.base import key
from corral.roles.controller import rest, rest_gate
from corral.roles.site import Site
from corral.slurm.conf.keys import KEYS
from corral.slurm.conf.parse import parse
from corral.spec.nodes import fold
from corral.state.base import Gate, Impact, Resource, StageWanted, Wanted
from corral.state.files import File
from corral.state.service import Service

DEFAULTS = "/etc/default/slurmd"


def stage(site: Site, files: dict[str, str]) -> StageWanted:
    """Slurmd on every compute node, slurmrestd on the controller; all nodes register."""
    nodes = tuple(n.name for n in site.compute)
    resources: tuple[Resource, ...] = (
        File(DEFAULTS, _defaults(site, files)),
        # Jobs live on in slurmstepd while slurmd restarts (KillMode=process in its unit).
        Service("slurmd", (DEFAULTS, key(site).path), impact=Impact.RELOAD),
    )
    return StageWanted(
        "compute",
        "slurmd on all compute nodes" + (", slurmrestd" if site.spec.slurm.rest else ""),
        (Wanted(nodes, resources), *rest(site)),
        (_registered(site, nodes), *rest_gate(site)),
    )


def _defaults(site: Site, files: dict[str, str]) -> str:
    # Settings that slurmd reads at its start only stand here as a digest: so a change of one of
    # them on the controller restarts slurmd, also after a crash between the two.
    started_with = hashlib.sha256(_read_at_start(files).encode()).hexdigest()[:16]
    server = f"{site.addresses[site.controller]}:6817"
    return (
        "# Written by Corral. Configless: everything else comes from the controller.\n"
        f"# Settings read at start only: {started_with}\n"
        f'SLURMD_OPTIONS="--conf-server {server}"\n'
    )


def _read_at_start(files: dict[str, str]) -> str:
    """The settings that ``scontrol reconfigure`` does not bring to a running slurmd."""
    found: list[str] = []
    for name in ("slurm.conf", "cgroup.conf"):
        for line in parse(files[name]).lines():
            for pair in line.pairs[:1]:
                known = KEYS.get((name, "", pair.key.lower()))
                if known is not None and known.impact in ("restart", "drain", "recreate"):
                    found.append(f"{name} {pair.key}={pair.value}")
    return "\n".join(found)


def _registered(site: Site, nodes: tuple[str, ...]) -> Gate:
    return Gate(
        f"{len(nodes)} nodes are registered",
        site.controller,
        # Any state that is not waiting for slurmd: unknown, not responding (*), powering up (#).
        sh(
            "s=$(timeout 10 sinfo -h -N -n {nodes} -o '%N %t' | sort -u) && "
            '[ "$(echo "$s" | grep -c .)" -ge {count} ] && '
            "! echo \"$s\" | grep -E '[*#~@^!%]$| (unk|down|inval)'",
            nodes=fold(nodes),
            count=len(nodes),
        ),
        60,
        "read journalctl -u slurmd on the nodes named",
        sh("timeout 10 sinfo -N -o '%N|%T|%E'"),
    )
