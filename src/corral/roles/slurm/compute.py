"""Compute nodes: slurmd, configless, registered with the controller."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from corral.agents import program
from corral.hosts.quote import call
from corral.inspect.slurm import NODE_LINES
from corral.roles.inventory import ConfiguredSite, Site
from corral.roles.machine import containers
from corral.roles.machine.gpu_devices import check, gpus_of, withheld
from corral.roles.machine.upkeep import LIMITS
from corral.roles.role import Role, Share
from corral.roles.slurm import packages, pods
from corral.roles.slurm.auth_key import former_keys, key_paths
from corral.roles.slurm.controller import conf_server
from corral.slurm.conf.conf_file import Setting, TextFile
from corral.slurm.conf.fields import keys_of_fields, pairs_of_fields
from corral.slurm.conf.impact import read_at_start
from corral.slurm.conf.model import Contribution, NodeConf
from corral.slurm.packages import Part
from corral.slurm.version import has
from corral.spec.impacts import Impact
from corral.spec.nodes import Node
from corral.spec.slurm.hostlist import fold
from corral.spec.slurm.releases import Feature
from corral.state.base import Desired, Gate, Resource
from corral.state.files import File
from corral.state.service import Service

DEFAULTS = "/etc/default/slurmd"


def slurm_conf(site: Site) -> Contribution:
    """The nodes that are there, as their machines are."""
    nodes = tuple(_node(site, node) for node in site.compute if not node.group.elastic)
    if not any(node.withheld for node in nodes):
        return Contribution(nodes=nodes)
    return Contribution(
        settings=(Setting("JobSubmitPlugins", "lua"),),
        nodes=nodes,
        files=(TextFile("job_submit.lua", program("job-submit.lua")),),
    )


def _node(site: Site, node: Node) -> NodeConf:
    facts, traits = site.facts[node.name], site.traits[node.name]
    return NodeConf(
        name=node.name,
        address=site.addresses[node.name],
        cpus=facts.cpus,
        sockets=facts.sockets,
        cores_per_socket=facts.cores_per_socket,
        threads_per_core=facts.threads_per_core,
        memory_mib=min(traits.memory_mib or facts.memory_mib, facts.memory_mib),
        gpus=gpus_of(node.group, facts, traits),
        withheld=withheld(site, node),
        features=(
            node.group.name,
            *node.group.features,
        ),
        more=pairs_of_fields("NodeName", node.group, keys_of_fields()),
    )


def upgraded(site: ConfiguredSite) -> tuple[Share, ...]:
    """Nodes whose Slurm is upgraded, in batches, each closed by a gate."""
    return tuple(_batch(site, nodes) for nodes in packages.rolling(site))


def started(site: ConfiguredSite) -> tuple[Share, ...]:
    """Slurmd on the compute nodes; all register."""
    late = packages.old(site)
    gone = former_keys(site)
    desired = _slurmd(site, [n.name for n in site.compute if n.name not in late], gone)
    title = "slurmd on all compute nodes" + (", slurmrestd" if site.spec.slurm.rest else "")
    return (Share(desired, (_registered(site, tuple(n.name for n in site.compute)),), title),)


def _slurmd(
    site: ConfiguredSite,
    nodes: Sequence[str],
    before: tuple[Resource, ...] = (),
    *,
    upgraded: bool = False,
) -> tuple[Desired, ...]:
    """Slurmd on these nodes, behind other resources of theirs."""
    inputs = (*key_paths(site), *containers.slurmd_inputs(site))
    # Jobs live on in slurmstepd while slurmd restarts (KillMode=process in its unit).
    impact = Impact.RELOAD
    service = Service(
        "slurmd",
        (DEFAULTS, LIMITS, *inputs),
        impact=impact,
        settle=packages.BACK if upgraded else None,
        programs=packages.programs(site, Part.SLURMD),
        packages=packages.bringing(site),
    )
    own = tuple(n for n in nodes if not site.is_pod(n))
    defaults = File(DEFAULTS, _defaults(site))
    desired = [Desired(own, (*before, defaults, service))] if own else []
    desired += [
        Desired((n,), (*before, *pods.slurmd(site, n, inputs, impact)))
        for n in nodes
        if site.is_pod(n)
    ]
    return tuple(desired)


def _batch(site: ConfiguredSite, nodes: tuple[str, ...]) -> Share:
    run_jobs = tuple(
        n.name for n in site.compute if n.name in nodes and n.name not in site.unreachable
    )
    desired = (
        *packages.batch(site, nodes),
        *containers.plugin(site, _but_controller(site, nodes)),
        *_slurmd(site, run_jobs, upgraded=True),
    )
    title = f"Slurm {site.debs.version if site.debs else ''} on {fold(nodes)}; its jobs go on"
    return Share(desired, packages.runs_gate(site, run_jobs), title)


def _but_controller(site: Site, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Without the controllers, whose Slurm came in an earlier stage."""
    return tuple(n for n in nodes if n not in site.controllers)


def _defaults(site: ConfiguredSite) -> str:
    # Settings that slurmd reads at its start only are here as a digest: so a change of one of
    # them on the controller restarts slurmd, also after a crash between the two.
    files = site.slurm_files
    text = "\n".join(
        f"{file.name} {line}"
        for file in (files.slurm, files.cgroup)
        for line in read_at_start(file)
    )
    if not has(site.version, Feature.RECONFIGURE_REEXECS):
        # slurm.conf(5) before 23.11: nodes that come or go need a restart of every slurmd.
        text += "\n".join(map(str, files.slurm.lines_of("NodeName")))
    started_with = hashlib.sha256(text.encode()).hexdigest()[:16]
    return (
        "# Written by Corral. Configless: everything else comes from the controller.\n"
        f"# Settings read at start only: {started_with}\n"
        f'SLURMD_OPTIONS="--conf-server {conf_server(site)}"\n'
    )


def _registered(site: Site, declared: tuple[str, ...]) -> Gate:
    nodes = tuple(node for node in declared if node not in site.unreachable)
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
        call("gates/slurm.sh", "nodes_registered", len(nodes), fold(nodes)),
        # Over a mesh a first try may be lost; slurmd waits longer before each further one.
        180 if mesh else 60,
        hint,
        NODE_LINES.shell,
    )


ROLE: Final = Role("compute", {"upgrade": upgraded, "compute": started}, slurm_conf, check=check)
