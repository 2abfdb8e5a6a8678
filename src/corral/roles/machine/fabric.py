"""The network between nodes: topology, RDMA from GPUs. Pure."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.roles.inventory import Site
from corral.roles.machine import mesh
from corral.roles.role import Role, Share
from corral.slurm.conf.conf_file import ConfFile, Setting
from corral.slurm.conf.model import Contribution
from corral.slurm.topology import Switch, block_file, tree_file
from corral.slurm.version import has
from corral.spec.slurm.hostlist import expand
from corral.spec.slurm.releases import Feature
from corral.state.base import Desired
from corral.state.packages import Packages
from corral.state.system.kernel import Module

INBOX = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags")
"""NCCL opens libibverbs and takes TCP sockets where it is not there; rdma-core names the
adapters after the host (rdma-ndd). Vendors' stacks have packages of the same names: theirs stay."""


def slurm_conf(site: Site) -> Contribution:
    """The declared switches, unless islands of the mesh take their place.

    Raises:
        CorralError: NOT_GOOD, this Slurm has no topology/block.
    """
    declared = site.spec.network.topology
    file = topology(site)
    if file is None or declared is None or mesh.islands(site):
        return Contribution()
    return Contribution((Setting("TopologyPlugin", f"topology/{declared.plugin}"),), files=(file,))


def topology(site: Site) -> ConfFile | None:
    """topology.conf, None where the file declares no switches.

    Raises:
        CorralError: NOT_GOOD, this Slurm has no topology/block.
    """
    declared = site.spec.network.topology
    if declared is None:
        return None
    jobs = {n.name for n in site.compute}
    switches = [
        Switch(
            s.name, tuple(n for n in (expand(s.nodes) if s.nodes else ()) if n in jobs), s.switches
        )
        for s in declared.switches
    ]
    if declared.plugin == "tree":
        return tree_file(switches)
    if not has(site.version, Feature.BLOCK_TOPOLOGY):
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm {site.version} has no topology/block",
            hint="network: {topology: {plugin: tree}}, or Slurm 23.11 and later",
        )
    return block_file([s for s in switches if s.nodes])


def on_nodes(site: Site) -> tuple[Share, ...]:
    """RDMA's libraries, and nvidia-peermem on nodes with GPUs, where the driver has it."""
    data = site.spec.network.data
    if data is None or data.fabric == "ethernet":
        return ()
    desired: list[Desired] = []
    if data.stack == "inbox":
        desired.append(Desired(tuple(n.name for n in site.compute), (Packages("rdma", INBOX),)))
    nodes = tuple(
        n.name for n in site.compute if n.group.gpu_kinds and site.traits[n.name].own_clock
    )
    if nodes:
        desired.append(Desired(nodes, (Module("nvidia-peermem"),)))
    return (Share(tuple(desired)),)


ROLE: Final = Role("fabric", {"base": on_nodes}, slurm_conf)
