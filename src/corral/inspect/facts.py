"""Facts: what a machine is, read in one round trip, never guessed; what its provider adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter, ValidationError

from corral.errors import Code, CorralError
from corral.hosts.framing import Inquiry
from corral.inspect import (
    cpu,
    gpu,
    network,
    slurm,
    system,
)
from corral.inspect import mesh as tailnet
from corral.inspect.mesh import MeshFacts
from corral.inspect.question import Answers, inquiry


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
    cores_per_socket x threads_per_core = cpus, memory in MiB. (Processors with unlike cores have no
    such product: without slurmd they count as one socket of ``cpus`` cores.)
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
    cgroup: system.CgroupMode
    systemd: bool
    address: str  # the IPv4 address of the control network
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    slurm: str = ""  # 24.11.5; "" when not installed
    slurm_candidate: str = ""  # what the package source offers; asked only while none is installed
    plugins: frozenset[str] = field(default_factory=frozenset[str])
    nvidia_pci: tuple[str, ...] = ()  # PCI device ids of GPUs and NVSwitches, sorted
    secure_boot: bool = False
    firewall: system.Firewall = ""  # the one that is on
    cloud_init: bool = False
    mesh: MeshFacts = field(default_factory=MeshFacts)
    swap_limit: bool = False  # memory.memsw.* (v1) or memory.swap.max (v2): the kernel limits swap
    host_key: str = ""  # of its sshd: type and public key
    pmix: bool = False  # its Slurm, or the one that the package source offers, starts ranks by PMIx

    def as_dict(self) -> dict[str, object]:
        """JSON-ready fields, always in the same order; ``from_dict`` reads them back."""
        fields: dict[str, object] = _FACTS.dump_python(self, mode="json")
        fields["plugins"] = sorted(self.plugins)
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, object]) -> Facts:
        """Facts from what ``as_dict`` gave, or its JSON.

        Raises:
            CorralError: PARSE_FAILED.
        """
        try:
            return _FACTS.validate_python(fields)
        except ValidationError as error:
            raise CorralError(
                Code.PARSE_FAILED,
                f"these are not the facts of a machine: {error.errors()[0]['msg']}",
                tail=str(error),
                hint="read the machine again",
            ) from error


_FACTS: Final = TypeAdapter(Facts)
QUESTIONS: Final = (
    *system.QUESTIONS,
    *cpu.QUESTIONS,
    *network.QUESTIONS,
    *gpu.QUESTIONS,
    *tailnet.QUESTIONS,
    *slurm.INSTALLED,
)
"""What every machine is asked; read-only."""


def facts_inquiry() -> Inquiry:
    """The questions of which facts are made; read-only."""
    return inquiry(QUESTIONS)


def facts_of(node: str, asked: Inquiry, output: str) -> Facts:
    """Facts from what the script of ``facts_inquiry`` printed.

    Raises:
        CorralError: PARSE_FAILED, also where a question was not answered.
    """
    return parse_facts(node, asked.answers(output, node, "reading facts"))


def parse_facts(node: str, answers: Answers) -> Facts:
    """Facts from the answers to ``QUESTIONS``.

    Raises:
        CorralError: PARSE_FAILED.
    """
    try:
        return _facts(node, answers)
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise _nonsense(node, answers, error) from error


def _facts(node: str, parts: Answers) -> Facts:
    release = system.OS.read(parts)
    layout = cpu.layout(parts)
    nics = network.interfaces(parts)
    return Facts(
        node=node,
        os_id=release.id,
        os_version=release.version,
        kernel=system.KERNEL.read(parts),
        cpus=layout.cpus,
        sockets=layout.sockets,
        cores_per_socket=layout.cores,
        threads_per_core=layout.threads,
        memory_mib=layout.memory,
        cgroup=system.CGROUP.read(parts),
        systemd=system.SYSTEMD.read(parts),
        address=network.address(parts, nics),
        gpus=tuple(Gpu(*row) for row in gpu.gpus(parts)),
        nics=tuple(Nic(nic.name, nic.addresses, nic.speed, nic.mtu) for nic in nics),
        slurm=slurm.VERSION.read(parts),
        slurm_candidate=slurm.CANDIDATE.read(parts),
        plugins=slurm.PLUGINS.read(parts),
        pmix=slurm.PMIX.read_or_empty(parts),
        swap_limit=system.SWAP_LIMIT.read_or_empty(parts),
        nvidia_pci=gpu.nvidia_pci(parts),
        secure_boot=system.SECURE_BOOT.read_or_empty(parts),
        firewall=system.FIREWALL.read_or_empty(parts),
        cloud_init=system.CLOUD_INIT.read_or_empty(parts),
        host_key=system.HOST_KEY.read_or_empty(parts),
        mesh=tailnet.mesh(parts),
    )


def _nonsense(node: str, answers: Answers, error: Exception) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        f"its facts could not be understood: {error}",
        node=node,
        command="facts script",
        tail="\n".join(f"{name}: {text[:200]}" for name, text in answers.items())[-1000:],
        hint="look at the machine: is it a Linux with /proc and /sys mounted?",
    )


@dataclass(frozen=True, slots=True)
class Traits:
    """What roles must know about a node that it cannot read off itself.

    Attributes:
        memory_mib: memory the node may use when /proc/meminfo shows another amount, else 0.
        gpu_devices: GPU device files the provider makes, empty when they are the machine's own.
        shared: folders that the provider shares over all nodes.
        own_clock: False when the clock is another machine's (containers): no chrony there.
    """

    memory_mib: int = 0
    gpu_devices: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    own_clock: bool = True
