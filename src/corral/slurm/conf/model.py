"""What Slurm's files are made from: nodes, partitions, cluster. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from corral.slurm.conf.conf_file import ConfFile, Pairs, Setting, TextFile
from corral.slurm.conf.real_memory import real_memory
from corral.slurm.version import SlurmVersion


@dataclass(frozen=True, slots=True)
class NodeConf:
    """One compute node as ``slurmd -C`` and the GPU probe see it.

    Attributes:
        name: NodeName and host name.
        address: NodeAddr: an address the controller and all other nodes reach.
        cpus: CPUs (hardware threads); sockets x cores_per_socket x threads_per_core.
        sockets: sockets.
        cores_per_socket: cores of each socket.
        threads_per_core: hardware threads of each core.
        memory_mib: memory in MiB as reported; RealMemory is written with a margin.
        gpu_type: type in Gres=, "" for none; lower case, such as rtx5090.
        gpu_count: GPUs.
        gpu_files: their device files for gres.conf, such as /dev/nvidia[0-1].
        features: Slurm features.
        port: slurmd's port.
        gpu_detect: files: gres.conf names the device files; nvidia: slurmd finds them
            (AutoDetect=nvidia, Slurm >= 24.11 with gpu_nvidia.so, NVIDIA driver on the node).
        cloud: it comes when a job needs it; until then it has no address.
        more: further keys of its line.
    """

    name: str
    address: str
    cpus: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    gpu_type: str = ""
    gpu_count: int = 0
    gpu_files: str = ""
    features: tuple[str, ...] = ()
    port: int = 6818
    gpu_detect: Literal["files", "nvidia"] = "files"
    cloud: bool = False
    more: Pairs = ()

    @property
    def real_memory(self) -> int:
        """RealMemory in MiB, as ``real_memory`` makes it of what is there."""
        return real_memory(self.memory_mib)

    @property
    def gres(self) -> str:
        """Gres= of the node line, "" without GPUs."""
        if not self.gpu_count:
            return ""
        return ":".join(part for part in ("gpu", self.gpu_type, str(self.gpu_count)) if part)


@dataclass(frozen=True, slots=True)
class PartitionConf:
    """One partition.

    Attributes:
        name: its name.
        nodes: names of its nodes.
        default: jobs that name no partition go here.
        max_time: longest job in Slurm's grammar: INFINITE or ``D-HH:MM:SS``
            (``corral.durations.max_time`` makes it from the cluster file's).
        background_group: the one group whose users may use it: its jobs come last, have their
            nodes to themselves and end at once when any other partition's job needs the node; ""
            for a partition like any other.
        more: further keys of its line.
    """

    name: str
    nodes: tuple[str, ...]
    default: bool
    max_time: str
    background_group: str = ""
    more: Pairs = ()


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one role adds to Slurm's files.

    Attributes:
        settings: global keys of slurm.conf; they take the place of what every cluster has.
        nodes: more nodes.
        partitions: more partitions.
        files: more files.
        features: more features of nodes, by the node's name.
    """

    settings: tuple[Setting, ...] = ()
    nodes: tuple[NodeConf, ...] = ()
    partitions: tuple[PartitionConf, ...] = ()
    files: tuple[ConfFile | TextFile, ...] = ()
    features: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class ClusterConf:
    """A complete cluster, as Slurm's files need it.

    Attributes:
        name: ClusterName.
        controller: host name of the machine that runs slurmctld.
        controller_address: its address.
        version: the Slurm release the files are for (the oldest in the cluster).
        auth: munge, or slurm for auth/slurm (>= 23.11).
        accounting_host: host name of the machine that runs slurmdbd and MariaDB, "" for none.
        rest: JWT in addition to the main authentication, for slurmrestd.
        cgroup: what the nodes' kernels mount: v1, hybrid (v1 controllers and an empty v2
            tree) or v2.
        systemd: whether systemd runs the nodes.
        nodes: the compute nodes.
        partitions: the partitions.
        swap_limit: the kernels account swap (memory.swap.max on v2, memory.memsw.* on v1).
            slurmd refuses ConstrainSwapSpace where they do not.
        settings: global keys of slurm.conf by the roles and by fields of the cluster file.
        files: more files by the roles, such as topology.conf.
        declared: ``slurm.settings`` of the cluster file.
    """

    name: str
    controller: str
    controller_address: str
    version: SlurmVersion
    auth: Literal["munge", "slurm"]
    accounting_host: str
    rest: bool
    cgroup: Literal["v1", "hybrid", "v2"]
    systemd: bool
    nodes: tuple[NodeConf, ...]
    partitions: tuple[PartitionConf, ...] = ()
    swap_limit: bool = True
    settings: tuple[Setting, ...] = ()
    files: tuple[ConfFile | TextFile, ...] = ()
    declared: tuple[Setting, ...] = ()
