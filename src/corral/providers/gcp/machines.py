"""Types of machine that the toolkit makes clusters of, as data (``machines.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.tables import Row, read_table


class BaseImage(Row):
    """What the cluster's image is made of: an image, or the newest of a family.

    Attributes:
        project: whose.
        image: its name.
        family: its family.
    """

    project: str
    image: str = ""
    family: str = ""


class GpuNetwork(Row):
    """The networks of GPU traffic.

    Attributes:
        kind: multivpc: a VPC for each NIC; rdma: one VPC with the zone's RoCE profile and a
            subnetwork for each NIC.
        mtu: of all networks of the cluster.
        count: NICs of a node that carry GPU traffic.
        range: addresses of all of them.
        second: of the network of the second gVNIC, which machines with RDMA have.
    """

    kind: Literal["multivpc", "rdma"]
    mtu: int
    count: int
    range: str
    second: str = ""

    @property
    def vpcs(self) -> int:
        """How many VPCs they are."""
        return self.count if self.kind == "multivpc" else 1 + bool(self.second)

    @property
    def subnetworks(self) -> int:
        """How many subnetworks they have."""
        return self.count + bool(self.second)


class JobScript(Row):
    """A script of slurm-gcp that slurmd runs.

    Attributes:
        source: its name in slurm-gcp.
        when: before jobs, after them, or both.
    """

    source: str
    when: tuple[Literal["prolog", "epilog"], ...] = ("prolog", "epilog")


class Servers(Row):
    """Machines without GPUs that every cluster has.

    Attributes:
        image: of which Packer makes the image.
        controller: where slurmctld is.
        login: where people log in.
        quota: of their CPUs.
        disk: type of the login node's disk.
        image_disk: of the image's machine; "" for the module's default.
        controller_disk: of the controller; "" for the module's default.
        state_disk: whether slurmctld's state has a separate disk, of a type that is not for all.
    """

    image: str
    controller: str
    login: str
    quota: str
    disk: str = "pd-balanced"
    image_disk: str = ""
    controller_disk: str = ""
    state_disk: bool = True


def cpus_of(machine: str) -> int:
    """CPUs of a type without GPUs, which its name ends with."""
    return int(machine.rpartition("-")[2])


class GpuMachine(Row):
    """A type of machine with GPUs.

    Attributes:
        gpu: type of its GPUs, as ``groups[].gpu.type`` names it.
        gpus: how many.
        gpu_quota: of spot and flex-start machines; a reservation's GPUs counted when it was made.
        cores_per_socket: of each of two CPUs.
        node_conf: what slurm.conf has of it.
        memory_gib: its memory.
        toolkits: releases that make it.
        images: base of the cluster's image by release.
        network: of its GPUs.
        disk: type of its boot disk.
        placement: whether the toolkit asks for compact placement; dense reservations have it.
        domain: machines whose GPUs are on one NVLink; 0: NVLink is within a machine.
        accelerator_topology: that domain, as the toolkit names it.
        provisioning: ways to capacity.
        cpu_groups: whether machines without GPUs can be in its cluster, with its image.
        resume_s: seconds for a node to come up.
        suspend_s: seconds for a node to go.
        long_prolog: Slurm waits ten minutes for prologs.
        first_job: why the first job on a node is slow; "" where it is not.
        servers: machines next to it.
        cloud_parameters: what slurm-gcp writes into slurm.conf otherwise.
        slurm_gcp: variables of slurm-gcp's playbook.
        stack: limit of a process's stack.
        ssh_hosts: addresses of nodes on their GPU networks, for ssh between them.
        image_programs: what makes the image one for this machine.
        node_programs: what a node runs at each boot.
        program_values: what ``@NAME@`` in those stands for.
        prologs: scripts of slurm-gcp that slurmd runs for jobs, by the name that they get.
        zones: that are known to offer it; none: that is not known, and ``plan`` asks Google.
    """

    gpu: str
    gpus: int
    gpu_quota: str
    cores_per_socket: int
    node_conf: Mapping[str, int]
    memory_gib: int
    toolkits: tuple[str, ...]
    images: Mapping[str, BaseImage]
    network: GpuNetwork
    disk: str
    placement: bool
    domain: int = 0
    accelerator_topology: str = ""
    provisioning: tuple[str, ...] = ("reservation", "flex-start", "spot")
    cpu_groups: bool = True
    resume_s: int
    suspend_s: int
    long_prolog: bool = False
    first_job: str = ""
    servers: Servers
    cloud_parameters: Mapping[str, str] = {}
    slurm_gcp: Mapping[str, bool]
    stack: str = "unlimited"
    ssh_hosts: tuple[str, ...] = ()
    image_programs: tuple[str, ...]
    node_programs: tuple[str, ...]
    program_values: Mapping[str, str] = {}
    prologs: Mapping[str, JobScript]
    zones: tuple[str, ...] = ()

    @property
    def threads_per_core(self) -> int:
        """CPUs of a core."""
        return self.node_conf["ThreadsPerCore"]

    @property
    def cpus(self) -> int:
        """All CPUs."""
        return 2 * self.cores_per_socket * self.threads_per_core


@cache
def gpu_machines() -> Mapping[str, GpuMachine]:
    """Each type by its name, the one that the others are compared with first."""
    return MappingProxyType(
        read_table("corral.providers.gcp", "machines.yaml", dict[str, GpuMachine])
    )


def gpu_types_of(spec: ClusterSpec) -> tuple[str, ...]:
    """Types of machine with GPUs in a cluster file, each once."""
    named = [g.machine for g in spec.groups if g.machine]
    return tuple(dict.fromkeys(name for name in named if name in gpu_machines()))


def gpu_type_of(spec: ClusterSpec) -> str:
    """The type whose image, networks and servers a cluster has: that of its machines with GPUs.

    A cluster without GPUs has those of the table's first type.

    Raises:
        CorralError: SPEC_INVALID, it has several (a rule finds that).
    """
    types = gpu_types_of(spec)
    if len(types) > 1:
        raise CorralError(
            Code.SPEC_INVALID,
            f"a cluster of the toolkit has one type of machine with GPUs, {spec.name} has "
            f"{' and '.join(types)}",
            hint="give each type its own cluster file",
        )
    return types[0] if types else next(iter(gpu_machines()))


def zone_type_of(spec: ClusterSpec) -> str:
    """The type that the zone has to offer: the one with GPUs, else the first one of a group."""
    kind = gpu_type_of(spec)
    named = [g.machine for g in spec.groups if g.machine]
    return kind if kind in named or not named else named[0]


def gpu_machine_of(spec: ClusterSpec) -> GpuMachine:
    """That machine.

    Raises:
        CorralError: SPEC_INVALID, as ``gpu_type_of``.
    """
    return gpu_machines()[gpu_type_of(spec)]
