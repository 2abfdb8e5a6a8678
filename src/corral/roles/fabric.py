"""The network between nodes: Slurm's topology of it, and the module for RDMA from GPUs. Pure."""

from __future__ import annotations

from corral.errors import Code, CorralError
from corral.roles.site import Site
from corral.slurm.topology import Switch, render_blocks, render_tree
from corral.slurm.version import SlurmVersion
from corral.spec.hostlist import expand
from corral.state.base import Wanted
from corral.state.module import Module
from corral.state.packages import Packages

BLOCKS_SINCE = SlurmVersion(23, 11)

INBOX = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags")
"""NCCL opens libibverbs by itself and takes TCP sockets where it is not there; rdma-core names the
adapters after the host (rdma-ndd). Vendors' stacks have packages of the same names: theirs stay."""


def topology(site: Site) -> str:
    """topology.conf's lines, "" where the file declares no switches.

    Raises:
        CorralError: NOT_GOOD, this Slurm has no topology/block.
    """
    declared = site.spec.network.topology
    if declared is None:
        return ""
    jobs = {n.name for n in site.compute}
    switches = [
        Switch(
            s.name, tuple(n for n in (expand(s.nodes) if s.nodes else ()) if n in jobs), s.switches
        )
        for s in declared.switches
    ]
    if declared.plugin == "tree":
        return render_tree(switches)
    if site.version < BLOCKS_SINCE:
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm {site.version} has no topology/block",
            hint="network: {topology: {plugin: tree}}, or Slurm 23.11 and later",
        )
    return render_blocks([s for s in switches if s.nodes])


def blocks(site: Site) -> bool:
    """Whether the switches are blocks."""
    declared = site.spec.network.topology
    return declared is not None and declared.plugin == "block"


def wanted(site: Site) -> tuple[Wanted, ...]:
    """RDMA's libraries, and nvidia-peermem on nodes with GPUs, where the driver has it."""
    data = site.spec.network.data
    if data is None or data.fabric == "ethernet":
        return ()
    found: list[Wanted] = []
    if data.stack == "inbox":
        found.append(Wanted(tuple(n.name for n in site.compute), (Packages("rdma", INBOX),)))
    nodes = tuple(n.name for n in site.compute if n.group.gpu and site.traits[n.name].own_clock)
    if nodes:
        found.append(Wanted(nodes, (Module("nvidia-peermem"),)))
    return tuple(found)
