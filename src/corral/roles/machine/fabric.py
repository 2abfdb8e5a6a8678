"""The network between nodes: topology, RDMA from GPUs, GPUDirect-TCPXO. Pure.

The node's own profile is sourced, since its list of settings belongs to the plugin's release
(``nccl-env-profile.sh``, written by the prolog's installer). Over it go four names, because the
profile takes the NICs for eth0 to eth8 and Ubuntu calls them by their PCI places; the library path;
and the one value that the plugin checks (v1.0.12 and later refuse the job otherwise).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, filled, join, sh
from corral.roles.inventory import Site
from corral.roles.machine import mesh
from corral.roles.role import Role, Share
from corral.slurm.conf.conf_file import ConfFile, Setting
from corral.slurm.conf.model import Contribution
from corral.slurm.topology import Switch, block_file, tree_file
from corral.slurm.version import has
from corral.spec.hostlist import expand
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
    nodes = tuple(n.name for n in site.compute if n.group.gpu and site.traits[n.name].own_clock)
    if nodes:
        desired.append(Desired(nodes, (Module("nvidia-peermem"),)))
    return (Share(tuple(desired)),)


ROLE: Final = Role("fabric", {"base": on_nodes}, slurm_conf)


TCPXO: Final = "tcpxo"
"""The fabric of machine types whose ``provider.toml`` names it."""
FOLDER: Final = "/var/lib/tcpxo/lib64"
CONTROL: Final = "enp0s12"
RAILS: Final = (
    "enp6s0", "enp7s0", "enp13s0", "enp14s0", "enp134s0", "enp135s0", "enp141s0", "enp142s0",
)  # fmt: skip
"""The eight NICs in the order of the GPUs: two at each PCIe switch."""

OVERRIDES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NCCL_FASTRAK_CTRL_DEV": CONTROL,
        "NCCL_FASTRAK_IFNAME": ",".join(RAILS),
        "NCCL_SOCKET_IFNAME": CONTROL,
        "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
    }
)
"""What the profile sets otherwise or not at all."""

DEMANDED: Final[Mapping[str, str]] = MappingProxyType({"NCCL_NVLSTREE_MAX_CHUNKSIZE": "131072"})
"""What the plugin's checker accepts no other value of."""

MOUNTS: Final = ("/var/tmp:/var/tmp", f"{FOLDER}:{FOLDER}")  # noqa: S108  # as the installer's example
"""Of the host, in a job's container."""

APERTURE_MOUNT: Final = "/dev/aperture_devices:/dev/aperture_devices"
"""The devices of the plugin, where the container's /dev is its own."""

LIBRARIES: Final = f"{FOLDER}:/usr/lib/x86_64-linux-gnu"


def environment(folder: str = FOLDER) -> Script:
    """Shell for a job of two and more nodes that sets all of it, or ends the job and prints why."""
    return join(
        [
            filled(
                "jobs/batch/tcpxo-profile.sh",
                profile=f"{folder}/nccl-env-profile.sh",
                folder=folder,
                aperture=OVERRIDES["NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY"],
            ),
            *(
                sh("export {pair}", pair=f"{k}={v}")
                for k, v in (*OVERRIDES.items(), ("GLOO_SOCKET_IFNAME", CONTROL), *DEMANDED.items())
            ),
            sh(
                'export "LD_LIBRARY_PATH={libs}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"',
                libs=Script(LIBRARIES),
            ),
        ]
    )


def mistakes(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with a job's environment on this fabric, one sentence each; empty: nothing.

    Args:
        environment: as the ranks see it (``env`` in the job).
    """
    problems = [
        f"{name} is {environment.get(name) or 'not set'}, and the plugin demands {value}"
        for name, value in DEMANDED.items()
        if environment.get(name) != value
    ]
    rails = environment.get("NCCL_FASTRAK_IFNAME", "")
    interfaces = OVERRIDES["NCCL_FASTRAK_IFNAME"]
    if rails != interfaces and sorted(rails.split(",")) == sorted(RAILS):
        problems.append(
            f"NCCL_FASTRAK_IFNAME has the NICs in another order than the GPUs: {interfaces}"
        )
    elif rails != interfaces:
        problems.append(f"NCCL_FASTRAK_IFNAME is {rails or 'not set'}: the NICs are {interfaces}")
    problems += [
        f"{name} is {environment.get(name) or 'not set'}: it must be {value}"
        for name, value in OVERRIDES.items()
        if name != "NCCL_FASTRAK_IFNAME" and environment.get(name) != value
    ]
    if FOLDER not in environment.get("LD_LIBRARY_PATH", "").split(":"):
        problems.append(
            f"LD_LIBRARY_PATH lacks {FOLDER}: NCCL loads no plugin and takes TCP sockets"
        )
    return tuple(problems)
