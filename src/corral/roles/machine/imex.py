"""NVLink between the machines of a rack: NVIDIA's IMEX, with a channel for each job. Pure.

The nodes of one group are one rack (an NVLink domain); IMEX on each knows all of them, and jobs are
kept apart by channels ("NVLink domain wide", IMEX guide, Deployment Models).
"""

from __future__ import annotations

from typing import Final

from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.model import Contribution
from corral.slurm.version import has
from corral.spec.impacts import Impact
from corral.spec.nodes import Node
from corral.spec.rules.drivers import is_rack
from corral.spec.slurm.releases import Feature
from corral.state.base import Desired
from corral.state.files import File
from corral.state.service import Service

NODES: Final = "/etc/nvidia-imex/nodes_config.cfg"
UNIT: Final = "nvidia-imex"


def racks(site: Site) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each group whose machines share an NVLink domain, in the order of the file."""
    nodes = {g.name: tuple(n for n in site.compute if n.group == g) for g in site.spec.groups}
    return tuple(nodes[g.name] for g in site.spec.groups if is_rack(g, len(nodes[g.name])))


def in_rack(site: Site, node: Node) -> bool:
    """Whether a node runs IMEX."""
    return any(node.name == other.name for rack in racks(site) for other in rack)


def on_nodes(site: Site) -> tuple[Share, ...]:
    """The list of the rack's nodes, and the service.

    Its restart ends the jobs whose processes share memory between nodes: the change drains.
    """
    desired = tuple(
        Desired(
            tuple(node.name for node in rack),
            (
                File(NODES, "".join(f"{site.ip_address(node.name)}\n" for node in rack)),
                Service(UNIT, (NODES,), impact=Impact.DRAIN),
            ),
        )
        for rack in racks(site)
    )
    return (Share(desired, title="NVLink between machines (NVIDIA IMEX)"),) if desired else ()


def slurm_conf(site: Site) -> Contribution:
    """Channels by Slurm, where its release has the plugin."""
    if not racks(site) or not has(site.version, Feature.NVIDIA_IMEX):
        return Contribution()
    return Contribution((Setting("SwitchType", "switch/nvidia_imex"),))


ROLE: Final = Role("imex", {"gpus": on_nodes}, slurm_conf)
