"""What Slurm's files are made from: nodes, partitions, cluster. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from corral.slurm.conf.conf_file import ConfFile, Pairs, Setting, TextFile
from corral.slurm.conf.real_memory import real_memory
from corral.slurm.version import SlurmVersion
from corral.spec.nodes import STATE_DIR
from corral.spec.slurm.hostlist import expand

WITHHELD: Final = "withheld"
"""The generic resource of GPUs that no job gets: Slurm fences only devices that it counts."""


@dataclass(frozen=True, slots=True)
class GpuConf:
    """GPUs of one type on a node.

    Attributes:
        type: as in Gres=, "" for none; such as rtx5090.
        count: how many.
        files: their device files for gres.conf, such as /dev/nvidia[0-1].
        shards: parts of each that jobs share, 0 for none.
    """

    type: str
    count: int
    files: str = ""
    shards: int = 0


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
        gpus: its GPUs, by type.
        withheld: device files of GPUs that no job gets, such as /dev/nvidia[2-3]; "" for none.
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
    gpus: tuple[GpuConf, ...] = ()
    withheld: str = ""
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
    def gpu_count(self) -> int:
        """GPUs of all types."""
        return sum(gpu.count for gpu in self.gpus)

    @property
    def shards(self) -> int:
        """Parts of GPUs that jobs share, of all types."""
        return sum(gpu.shards * gpu.count for gpu in self.gpus)

    @property
    def gres(self) -> str:
        """Gres= of the node line, "" without GPUs."""
        gpus = [("gpu", gpu.type, str(gpu.count)) for gpu in self.gpus if gpu.count]
        shared = [("shard", str(self.shards))] if self.shards else []
        no_job = [(WITHHELD, str(len(expand(self.withheld))))] if self.withheld else []
        return ",".join(":".join(filter(None, parts)) for parts in (*gpus, *shared, *no_job))


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
        backup: host name of the machine that runs the second slurmctld, "" for none.
        backup_address: its address.
        state: folder of slurmctld's state.
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
        pmix: the Slurm of every node starts ranks by PMIx; a node without it fails all steps.
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
    pmix: bool = False
    settings: tuple[Setting, ...] = ()
    files: tuple[ConfFile | TextFile, ...] = ()
    declared: tuple[Setting, ...] = ()
    backup: str = ""
    backup_address: str = ""
    state: str = STATE_DIR
