"""What Slurm's files are made from: nodes, partitions, cluster. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from corral.slurm.version import SlurmVersion

# RealMemory is what jobs may use. A node that later reports less than configured becomes INVAL
# (F07), and a kernel update alone can reserve some more MiB: leave 3 % (2 to 5 % is the practice).
MEMORY_PERCENT: Final = 97
LEAST_GRAIN: Final = 16


def real_memory(reported: int) -> int:
    """RealMemory in MiB for a node that reports so many: less the margin, in whole grains.

    A grain is the power of two that is 1/128 to 1/256 of the memory (16 MiB at least): the same
    machine reports some MiB more or less after a reboot (seen), and slurm.conf must stay as it is.
    """
    grain = max(LEAST_GRAIN, 1 << reported.bit_length() >> 8)
    usable = reported * MEMORY_PERCENT // 100
    return usable // grain * grain or usable


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
            (``corral.slurm.duration.max_time`` makes it from the cluster file's).
        gives_way: the one group whose users may use it: its jobs come last, have their nodes to
            themselves and end at once when any other partition's job needs the node; "" for a
            partition like any other.
    """

    name: str
    nodes: tuple[str, ...]
    default: bool
    max_time: str
    gives_way: str = ""


@dataclass(frozen=True, slots=True)
class PowerConf:
    """When cloud nodes come and go, in seconds.

    Attributes:
        idle: a node without a job goes after this time.
        boot: a node that has not come after this time is given up.
        end: how long one may take to go.
        stay: names of nodes that never go.
        keep: (names, how many of them stay).
    """

    idle: int
    boot: int
    end: int
    stay: tuple[str, ...]
    keep: tuple[tuple[tuple[str, ...], int], ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterConf:
    """A whole cluster, as Slurm's files need it.

    Attributes:
        name: ClusterName.
        controller: host name of the machine that runs slurmctld.
        controller_address: its address.
        version: the Slurm release the files are for (the oldest in the cluster).
        auth: munge, or slurm for auth/slurm (>= 23.11).
        accounting_host: host name of the machine that runs slurmdbd and MariaDB, "" for none.
        rest: JWT beside the main authentication, for slurmrestd.
        cgroup: what the nodes' kernels mount: v1, hybrid (v1 controllers beside an empty v2
            tree) or v2.
        systemd: whether systemd runs the nodes.
        nodes: the compute nodes.
        partitions: the partitions.
        swap_limit: the kernels account swap (memory.swap.max on v2, memory.memsw.* on v1).
            slurmd refuses ConstrainSwapSpace where they do not.
        limits: limits of accounts, users and QOS are held to.
        shares: accounts or users have shares, or QOS priorities.
        preempt: a QOS preempts another one.
        prolog: script that slurmd runs before each job, "" for none.
        epilog: script that it runs after each job, "" for none.
        prolog_minutes: how long either may take.
        switches: the network's switches, "" for none: text of topology.conf without its header.
        blocks: they are blocks (topology/block), not a tree.
        plugstack: text of plugstack.conf, "" for the one that is there.
        health: program that slurmd runs on each node now and then, "" for none.
        health_seconds: how often.
        links: lan, or mesh: links with latency, relays and NAT between the nodes.
        islands: (name, nodes) of parts within which a job of several nodes stays; empty: it may
            use any nodes.
        metrics: slurmctld tells Prometheus itself (25.11 on).
        apart: some nodes have files of their own, which differ on purpose.
        bridged: names of islands that one job may use together all the same.
        power: when cloud nodes come and go, None without such nodes.
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
    limits: bool = False
    shares: bool = False
    preempt: bool = False
    prolog: str = ""
    epilog: str = ""
    prolog_minutes: int = 5
    switches: str = ""
    blocks: bool = False
    plugstack: str = ""
    health: str = ""
    health_seconds: int = 300
    links: Literal["lan", "mesh"] = "lan"
    islands: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bridged: tuple[str, ...] = ()
    metrics: bool = False
    apart: bool = False
    power: PowerConf | None = None
