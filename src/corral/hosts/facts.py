"""Facts: what a machine is, read in one round trip, never guessed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its device file, its name as nvidia-smi gives it and its memory in MiB."""

    device: str
    name: str
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class Nic:
    """One network interface: name, IPv4 addresses, speed in Mb/s (0: not known), MTU in bytes."""

    name: str
    addresses: tuple[str, ...] = ()
    speed_mbps: int = 0
    mtu: int = 1500


@dataclass(frozen=True, slots=True)
class Facts:
    """What one machine is.

    CPU counts and memory are those of ``slurmd -C`` when it is installed, else of /proc: sockets x
    cores_per_socket x threads_per_core = cpus, memory in MiB.
    """

    node: str
    os_id: str  # debian, ubuntu: ID of os-release
    os_version: str  # 13, 24.04: VERSION_ID of os-release
    kernel: str
    cpus: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    cgroup: str  # v1, hybrid, v2
    systemd: bool
    address: str  # the IPv4 address of the control network
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    slurm: str = ""  # 24.11.5; "" when not installed
    slurm_candidate: str = ""  # what the package source offers
    plugins: frozenset[str] = field(default_factory=frozenset[str])
