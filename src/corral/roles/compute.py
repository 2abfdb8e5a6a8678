"""Compute nodes: slurmd, configless, registered with the controller."""

from __future__ import annotations

import hashlib

from corral.hosts.quote import sh
from corral.roles import containers, slurm_packages
from corral.roles.base import former_keys, key_paths
from corral.roles.controller import rest, rest_gate
from corral.roles.machine import LIMITS
from corral.roles.site import Site
from corral.slurm.conf.keys import keys_by_id
from corral.slurm.conf.parse import parse
from corral.slurm.packages import Part
from corral.slurm.version import Feature, has
from corral.spec.nodes import fold
from corral.state.base import Gate, Impact, Resource, StageWanted, Wanted
from corral.state.files import File
from corral.state.service import Service

DEFAULTS = "/etc/default/slurmd"


def stages(site: Site, files: dict[str, str]) -> tuple[StageWanted, ...]:
    """Slurmd on every compute node, slurmrestd on the controller; all nodes register.

    Nodes whose Slurm is upgraded come first, in batches, each closed by a gate.
    """
    nodes = tuple(n.name for n in site.compute)
    defaults = File(DEFAULTS, _defaults(site, files))
    first = [_upgraded(site, defaults, i, b) for i, b in enumerate(slurm_packages.rolling(site))]
    late = slurm_packages.old(site)
    rest_of = tuple(n for n in nodes if n not in late)
    resources: tuple[Resource, ...] = (*former_keys(site), defaults, _slurmd(site))
    last = StageWanted(
        "compute",
        "slurmd on all compute nodes" + (", slurmrestd" if site.spec.slurm.rest else ""),
        (*((Wanted(rest_of, resources),) if rest_of else ()), *rest(site)),
        (_registered(site, nodes), *rest_gate(site)),
    )
    return (*first, last)


def _slurmd(site: Site, *, upgraded: bool = False) -> Service:
    return Service(
        "slurmd",
        (DEFAULTS, LIMITS, *key_paths(site), *containers.slurmd_inputs(site)),
        # Jobs live on in slurmstepd while slurmd restarts (KillMode=process in its unit).
        impact=Impact.RELOAD,
        settle=slurm_packages.BACK if upgraded else None,
        programs=slurm_packages.programs(site, Part.SLURMD),
        packages=slurm_packages.bringing(site),
    )


def _upgraded(site: Site, defaults: File, index: int, nodes: tuple[str, ...]) -> StageWanted:
    run_jobs = tuple(n.name for n in site.compute if n.name in nodes)
    wanted = (
        *slurm_packages.batch(site, nodes),
        *containers.plugin(site, _but_controller(site, nodes)),
    )
    if run_jobs:
        wanted = (*wanted, Wanted(run_jobs, (defaults, _slurmd(site, upgraded=True))))
    title = f"Slurm {site.debs.version if site.debs else ''} on {fold(nodes)}; its jobs go on"
    gates = slurm_packages.runs_gate(site, run_jobs)
    return StageWanted(f"upgrade-{index + 1}", title, wanted, gates)


def _but_controller(site: Site, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Without the controller, whose Slurm came in a stage of its own."""
    return tuple(n for n in nodes if n != site.controller)


def _defaults(site: Site, files: dict[str, str]) -> str:
    # Settings that slurmd reads at its start only stand here as a digest: so a change of one of
    # them on the controller restarts slurmd, also after a crash between the two.
    text = _read_at_start(files)
    if not has(site.version, Feature.RECONFIGURE_REEXECS):
        # slurm.conf(5) before 23.11: nodes that come or go need a restart of every slurmd.
        text += "\n".join(line for line in files["slurm.conf"].splitlines() if "NodeName=" in line)
    started_with = hashlib.sha256(text.encode()).hexdigest()[:16]
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
                known = keys_by_id().get((name, "", pair.key.lower()))
                if known is not None and known.impact in ("restart", "drain", "recreate"):
                    found.append(f"{name} {pair.key}={pair.value}")
    return "\n".join(found)


def _registered(site: Site, nodes: tuple[str, ...]) -> Gate:
    mesh = site.spec.network.control == "tailscale"
    hint = "read journalctl -u slurmd on the nodes named"
    if mesh:
        hint += (
            " (in a container without init: supervisorctl tail slurmd); does the tailnet's policy "
            "let them reach each other? corral mesh policy FILE"
        )
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
        # Over a mesh a first try may be lost; slurmd waits longer before each further one.
        180 if mesh else 60,
        hint,
        sh("timeout 10 sinfo -N -o '%N|%T|%E'"),
    )
