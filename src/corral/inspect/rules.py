"""Rules over what machines report: each is written once here.

A rule finds facts (this name resolves to another address); its observer decides what they
mean there: a failed check of the proof, a failure of the doctor's catalogue, a line of the status.
``RULES`` is the table of who uses which, and for what; ``docs/reference/checks.md`` shows it, and
a test compares it with the imports and calls of the observers.

Health is a shell program that runs on nodes without Corral (decision 0037): it cannot call a rule
of Python's. It includes the shell functions among the rules; for each other one a test runs its
check and the rule on the same cases. So do resources, whose shell is in a room below this one, and
the rules for existing files (``slurm.adopt``). Room on disks is not a rule: the doctor asks whether
daemons can write now (50 MiB, F67), the health check whether a job would fill the disk (5 % and
2 GiB, health.disk). Those are two facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Final, Self

from corral.durations import clock
from corral.errors import CorralError
from corral.inspect.machine import CLOCK, DIRECTORY, NAMES, Resolved
from corral.inspect.nvidia import HostGpu
from corral.inspect.question import MachineState
from corral.inspect.services import Backup
from corral.inspect.storage import FolderAnswer
from corral.slurm.conf.parse import Document, switch
from corral.slurm.records import Node
from corral.slurm.tres import listed
from corral.slurm.version import SlurmVersion
from corral.state.storage.job_folders import Risk, UnsafeFolder
from corral.state.system.enroot import SYSCTL


class Observer(StrEnum):
    """Who uses a rule."""

    PROOF = "proof"
    DOCTOR = "doctor"
    STATUS = "status"
    DISCOVERY = "discover"
    HEALTH = "health"
    MESH = "mesh"
    PAGE = "page"
    THIS_MACHINE = "this machine"
    CONTAINERS = "containers"
    BENCH = "bench"
    JOBS = "run"
    UP = "up"
    ADOPT = "adopt"


@dataclass(frozen=True, slots=True)
class Use:
    """What an observer uses a rule for.

    Attributes:
        decides: checks of the proof, failures of the doctor's catalogue and what it explains,
            subjects of the status, columns and counts of the page, checks of the node's health,
            fields of what a provider observed, measurements, verbs, resources, rules of adoption.
        asks: the questions whose answers the rule judges there; none where the observer asks by
            other means (the page: slurmrestd) or in its own script.
        how: what it makes of the fact, where that differs from the others.
    """

    decides: tuple[str, ...]
    asks: tuple[str, ...] = ()
    how: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: of the function here, of a property or method of the class that the fact is about
            (``slurm.states.nodes.NodeState``, ``inspect.xids.Xid``), or of a shell function.
        finds: the fact.
        used_by: who uses it for what; rows of those that cannot import it (health, up, adopt) name
            what judges the same fact there.
        program: of a shell function, its file in ``agents``; "" for the others.
    """

    name: str
    finds: str
    used_by: Mapping[Observer, Use]
    program: str = ""


_GPU_LIST: Final = ("listed", "minors", "cards", "programs")
_GPU_USE: Final = ("cards", "users")

RULES: Final = (
    Rule(
        "usable",
        "whether a node takes jobs",
        {
            Observer.PROOF: Use(("smoke.nodes", "smoke.launch"), ("nodes",)),
            Observer.DOCTOR: Use(("--why-drained", "--why-pending"), ("nodes",)),
            Observer.STATUS: Use(("nodes",), ("nodes",)),
            Observer.PAGE: Use(("usable", "kind")),
            Observer.UP: Use(("notes",), how="what a node does that a roll leaves as it is"),
        },
    ),
    Rule(
        "unit_state",
        "what a systemd unit does",
        {
            Observer.PROOF: Use(("smoke.services",), ("units",), "all that are not active"),
            Observer.DOCTOR: Use(("F03", "F18", "F38", "F73"), ("units",), "those that are down"),
            Observer.STATUS: Use(("units",), ("units",), "all that are not active"),
            Observer.HEALTH: Use(("health.services",), how="those down, and those that stop"),
        },
    ),
    Rule(
        "takes_requests",
        "whether a systemd unit takes requests",
        {
            Observer.DOCTOR: Use(
                ("F14", "F22"),
                ("units",),
                "active ones and, unlike `unit_state`, those that reload: users can write into "
                "their logs, of which only what a failed reconfiguration printed is read",
            ),
        },
    ),
    Rule(
        "is_starting",
        "whether a systemd unit has taken no request yet",
        {
            Observer.DOCTOR: Use(
                ("F86",), ("units",), "those that are activating: all of their log is read"
            ),
        },
    ),
    Rule(
        "no_real_memory",
        "a node without RealMemory in slurm.conf",
        {
            Observer.PROOF: Use(("smoke.registered",), ("nodes",)),
            Observer.DOCTOR: Use(("F08",), ("nodes",)),
            Observer.ADOPT: Use(("real-memory-missing",), how="in a file that is not in use yet"),
        },
    ),
    Rule(
        "file_faults",
        "what slurm.conf and cgroup.conf lack",
        {
            Observer.DOCTOR: Use(("F11", "F16", "F31"), ("slurmconf", "cgroupconf")),
            Observer.ADOPT: Use(
                ("cluster-name-missing", "gres-types-missing", "devices-open", "task-plugin"),
                how="in files that are not in use yet",
            ),
        },
    ),
    Rule(
        "name_problems",
        "names that a node resolves to nothing, to itself or to another address",
        {
            Observer.PROOF: Use(("smoke.names",), ("names",)),
            Observer.DOCTOR: Use(
                ("F05", "F06", "F66"),
                ("names",),
                "not where the expected address comes after another: it works",
            ),
            Observer.DISCOVERY: Use(
                ("own_name",), ("ownname",), "the machine's own name on 127.*, in /etc/hosts"
            ),
            Observer.UP: Use(("hosts",), how="as discover; the name is taken off those lines"),
            Observer.ADOPT: Use(("own-name-loopback",), how="as discover, in files, ::1 too"),
        },
    ),
    Rule(
        "clock_offset",
        "how far a node's clock is off",
        {
            Observer.PROOF: Use(("smoke.clocks",), ("clock",), "between any two nodes"),
            Observer.DOCTOR: Use(("F02",), ("clock",), "from most others"),
            Observer.DISCOVERY: Use(("clock",), ("clock",), "from this machine's, as the doctor"),
            Observer.HEALTH: Use(("health.clock",), how="from the controller's, as the doctor"),
        },
    ),
    Rule(
        "version_fault",
        "a version of Slurm that is not the expected one",
        {
            Observer.PROOF: Use(("smoke.versions",), ("versions",), "any, installed or running"),
            Observer.DOCTOR: Use(
                ("F19",), ("versions",), "a newer slurmd than slurmctld, which refuses it"
            ),
        },
    ),
    Rule(
        "differing_files",
        "files of Slurm's that differ from the controller's",
        {
            Observer.PROOF: Use(("smoke.config",), ("files",), "those that the daemons work with"),
            Observer.DOCTOR: Use(("F04",), ("conf",), "also where no daemon answers"),
        },
    ),
    Rule(
        "folder_fault",
        "a shared folder that does not answer or cannot be read",
        {
            Observer.PROOF: Use(("storage.mounts",), how="with its server, squash and owners"),
            Observer.DOCTOR: Use(("F68",), ("shared-mounts",)),
            Observer.HEALTH: Use(("health.mounts",)),
        },
    ),
    Rule(
        "folder_read_only",
        "a folder on a file system that is read-only",
        {
            Observer.DOCTOR: Use(("F71",), ("readonly",), "folders of daemons, and /tmp"),
            Observer.HEALTH: Use(
                ("health.spool",),
                how="slurmd's spool and /tmp; also where one is missing, or takes no new file",
            ),
        },
        "folder-read-only.sh",
    ),
    Rule(
        "nobody_unshares",
        "users who may not make a user namespace",
        {
            Observer.DOCTOR: Use(("F20",), ("userns",)),
            Observer.UP: Use((f"file:{SYSCTL}",), how="settings that forbid it are changed"),
        },
        "state/containers.sh",
    ),
    Rule(
        "ping_is_up",
        "whether slurmctld answers",
        {
            Observer.PROOF: Use(("smoke.nodes",), ("ping",), "before nodes are asked; shown"),
            Observer.DOCTOR: Use(("F83",), ("ping",), "before nodes are asked"),
            Observer.STATUS: Use(("nodes",), ("ping",), "before nodes are asked; shown"),
            Observer.UP: Use(("gates",), how="for as long as a gate waits"),
        },
        "slurmctld.sh",
    ),
    Rule(
        "owner_fault",
        "a folder of jobs on shared storage that a user can replace",
        {
            Observer.PROOF: Use(("storage.mounts",), how="also one that cannot be judged"),
            Observer.DOCTOR: Use(("F230",), ("shared",), "only one that a user can replace"),
            Observer.JOBS: Use(("run",), how="only one that a user can replace: nothing is sent"),
            Observer.PAGE: Use(("templates",), how="also one that cannot be judged"),
        },
    ),
    Rule(
        "memory_short",
        "less memory on a machine than Slurm hands out",
        {
            Observer.PROOF: Use(("smoke.registered",), ("memory",)),
            Observer.HEALTH: Use(("health.memory",)),
            Observer.ADOPT: Use(("real-memory-wrong",), how="of the machines that are known"),
        },
    ),
    Rule(
        "memory_unused",
        "a machine of whose memory Slurm hands out less than half",
        {
            Observer.PROOF: Use(
                ("smoke.registered",), ("memory",), "not in containers, which share a machine"
            ),
            Observer.ADOPT: Use(("real-memory-wrong",), how="a warning"),
        },
    ),
    Rule(
        "mtu_problems",
        "interfaces of one network with different MTUs",
        {
            Observer.DOCTOR: Use(("F28",), ("links", "addresses"), "those of the nodes' addresses"),
            Observer.BENCH: Use(("network",), how="those that carry data, as declared"),
        },
    ),
    Rule(
        "directory_problems",
        "a server of the directory that does not let a node read it, or a group that SSSD lacks",
        {
            Observer.PROOF: Use(
                ("smoke.directory",), ("directory",), "one server that answers is enough"
            ),
            Observer.DOCTOR: Use(("F446",), ("directory",), "each server"),
        },
    ),
    Rule(
        "backup_problem",
        "a scheduled backup that fails, does not run, or has made no archive of late",
        {
            Observer.DOCTOR: Use(("F2240",), ("backup",)),
            Observer.STATUS: Use(("backup",), ("backup",)),
        },
    ),
    Rule(
        "key_ends",
        "a node key of the tailnet that ends soon",
        {
            Observer.DOCTOR: Use(("F34",), ("tailnet",), "by the node's own clock"),
            Observer.MESH: Use(("problem",), how="by the clock of this machine"),
        },
    ),
    Rule(
        "driver_problem",
        "nvidia-smi that is missing, or does not list a GPU",
        {
            Observer.DISCOVERY: Use(
                ("listed",), ("pci", "smi", "programs"), "those on the PCI bus, driver or not"
            ),
            Observer.THIS_MACHINE: Use(("refusal",), _GPU_LIST, "those of the kernel module"),
            Observer.CONTAINERS: Use(("refusal",), _GPU_LIST, "those of the kernel module"),
            Observer.HEALTH: Use(
                ("health.gpus",), how="fewer than Slurm hands out, where nvidia-smi is there"
            ),
        },
    ),
    Rule(
        "amd_only",
        "GPUs of AMD's and none of NVIDIA's",
        {
            Observer.DISCOVERY: Use(("amd",), ("amd", "pci"), "a warning in the file"),
            Observer.THIS_MACHINE: Use(("refusal",), ("amd", "pci"), "where GPUs are declared"),
            Observer.CONTAINERS: Use(("refusal",), ("amd", "pci")),
        },
    ),
    Rule(
        "gpu_problem",
        "a GPU in MIG mode, or that a process computes on",
        {
            Observer.THIS_MACHINE: Use(("refusal",), _GPU_USE, "any: Slurm gets all"),
            Observer.CONTAINERS: Use(("refusal",), _GPU_USE, "those that a new node is to have"),
        },
    ),
    Rule(
        "missing_devices",
        "a GPU without its device file",
        {
            Observer.DOCTOR: Use(("F13",), ("devices", "gresconf")),
            Observer.HEALTH: Use(("health.gpus",), how="and GPUs that nvidia-smi does not list"),
            Observer.ADOPT: Use(("device-missing",), how="of recorded machines; too many too"),
        },
    ),
    Rule(
        "ecc_faults",
        "errors of a GPU's memory",
        {
            Observer.BENCH: Use(("gpu",)),
            Observer.HEALTH: Use(("health.ecc",)),
            Observer.PAGE: Use(("faulty",), how="uncorrected ones, which DCGM counts"),
        },
    ),
    Rule(
        "remap_faults",
        "rows of a GPU's memory that are replaced, wait for it, or cannot be",
        {
            Observer.BENCH: Use(("gpu",)),
            Observer.HEALTH: Use(("health.remap",)),
        },
    ),
    Rule(
        "link_faults",
        "a GPU's PCIe link with fewer lanes or of an older generation than it could have",
        {
            Observer.BENCH: Use(("gpu",), how="under load; a warning"),
            Observer.HEALTH: Use(
                ("health.pcie",),
                how="the generation in P0 only; a warning, and a failure where it once had more, "
                "or all other GPUs have",
            ),
        },
    ),
    Rule(
        "takes_out",
        "an Xid after which a node takes no jobs",
        {
            Observer.BENCH: Use(("gpu",)),
            Observer.HEALTH: Use(("health.xid",), how="since a person resumed the node"),
        },
    ),
    Rule(
        "job_xids",
        "Xids that are a job's own matter, or only counted",
        {
            Observer.PAGE: Use(("faulty",), how="the number alone is known, not the message"),
        },
    ),
)
"""Who uses a rule, and for what: the only such table."""


def rules_table() -> str:
    """The table as Markdown, for the reference of checks."""
    rows = ["| fact | who | decides | how |", "|---|---|---|---|"]
    for rule in RULES:
        for observer, use in rule.used_by.items():
            decides = ", ".join(f"`{name}`" for name in use.decides)
            rows.append(f"| {rule.finds} (`{rule.name}`) | {observer} | {decides} | {use.how} |")
    return "\n".join(rows)


CLOCK_OFF_S: Final = 5.0
"""Seconds from which a clock is off: credentials live 300, chrony keeps milliseconds."""
KEY_ENDS_SOON: Final = timedelta(days=14)
"""A node key of the tailnet that is good for less is a finding."""


class UnitState(StrEnum):
    """What a systemd unit does, from what ``systemctl is-active`` prints."""

    ACTIVE = "active"
    CHANGING = "changing"
    DOWN = "down"
    UNKNOWN = "unknown"


_CHANGING: Final = frozenset({"reloading", "activating", "deactivating"})


def unit_state(word: str) -> UnitState:
    """What a unit does, from systemd's word for it; "" where it printed none."""
    if word == "active":
        return UnitState.ACTIVE
    if word in _CHANGING:
        return UnitState.CHANGING
    return UnitState.DOWN if word else UnitState.UNKNOWN


def takes_requests(word: str) -> bool:
    """Whether users may have made a unit print lines; one that reloads goes on serving."""
    return word == "reloading" or unit_state(word) is UnitState.ACTIVE


def is_starting(word: str) -> bool:
    """Whether a unit has not served anybody since it was started."""
    return word == "activating"


class NameFault(StrEnum):
    """What is wrong with a name on a node."""

    MISSING = "has no address"
    UNANSWERED = "was not looked up in time"
    LOOPBACK = "is an address of the machine itself"
    ALSO_LOOPBACK = "is an address of the machine itself after another"
    OTHER = "is another address"
    LATER = "is first another address"


@dataclass(frozen=True, slots=True)
class NameProblem:
    """A name that a node resolves wrongly.

    Attributes:
        name: the name.
        fault: what is wrong.
        addresses: what it resolves to there.
        expected: the address it should have, "" when unknown.
    """

    name: str
    fault: NameFault
    addresses: tuple[str, ...]
    expected: str


def name_problems(
    state: MachineState, names: Sequence[str], expected: Mapping[str, str]
) -> Iterator[NameProblem]:
    """The names that the node resolves to nothing, to itself or to addresses not expected."""
    answers = state.by_key(NAMES)
    for name in names:
        resolved = answers.get(name, Resolved())
        address = expected.get(name, "")
        fault = _name_fault(resolved, address)
        if fault is not None:
            yield NameProblem(name, fault, tuple(map(str, resolved.addresses)), address)


def _name_fault(resolved: Resolved, expected: str) -> NameFault | None:
    addresses = resolved.addresses
    if resolved.late:
        return NameFault.UNANSWERED
    if not addresses:
        return NameFault.MISSING
    if loopback := on_loopback(addresses):
        return NameFault.LOOPBACK if addresses[0] in loopback else NameFault.ALSO_LOOPBACK
    texts = [str(address) for address in addresses]
    if expected and expected not in texts:
        return NameFault.OTHER
    return NameFault.LATER if expected and expected != texts[0] else None


def on_loopback(addresses: Iterable[IPv4Address]) -> tuple[IPv4Address, ...]:
    """Those of a name's addresses that each machine takes for its own."""
    return tuple(address for address in addresses if address.is_loopback)


@dataclass(frozen=True, slots=True)
class Offset:
    """Between which seconds a node's clock is ahead of ours; the round trip explains the rest."""

    least: float
    most: float

    @classmethod
    def between(cls, clock: float, sent: float, received: float) -> Self:
        """The offset of a clock that was read between two moments of ours."""
        return cls(clock - received, clock - sent)

    @property
    def surely(self) -> float:
        """Seconds ahead that the round trip cannot explain; negative: behind."""
        return max(self.least, 0.0) + min(self.most, 0.0)


def clock_offset(state: MachineState) -> Offset | None:
    """How far the node's clock is off; None when it was not read."""
    clock = state.get(CLOCK)
    return None if clock is None else Offset.between(clock, state.sent, state.received)


def no_real_memory(node: Node) -> bool:
    """Whether slurm.conf has no RealMemory for a node: slurmctld's default is 1 MiB."""
    return node.memory <= 1


class FileFault(StrEnum):
    """What Slurm's files lack."""

    NO_CLUSTER_NAME = "slurm.conf has no ClusterName"
    NO_GPUS = "slurm.conf has no GresTypes=gpu, or no Gres=gpu on its nodes"
    DEVICES_OPEN = "cgroup.conf has no ConstrainDevices=yes"
    NO_TASK_CGROUP = "slurm.conf: TaskPlugin has no task/cgroup"


def file_faults(slurm: Document, cgroup: Document | None, *, gpus: bool) -> Iterator[FileFault]:
    """What slurm.conf and cgroup.conf lack.

    Args:
        slurm: slurm.conf.
        cgroup: cgroup.conf; None where there is none.
        gpus: nodes have GPUs.
    """
    if slurm.get("ClusterName") is None:
        yield FileFault.NO_CLUSTER_NAME
    if not gpus:
        return
    if "gpu" not in slurm.words("GresTypes") or not any(map(listed, slurm.values("Gres"))):
        yield FileFault.NO_GPUS
    if not switch(cgroup.get("ConstrainDevices") if cgroup else None):
        yield FileFault.DEVICES_OPEN
    if not any(word.endswith("cgroup") for word in slurm.words("TaskPlugin")):
        yield FileFault.NO_TASK_CGROUP


def memory_short(machine_mib: int, slurm_mib: int) -> bool:
    """Whether a machine has less memory than Slurm hands out there."""
    return machine_mib < slurm_mib


def memory_unused(machine_mib: int, slurm_mib: int) -> bool:
    """Whether Slurm hands out less than half of a machine's memory: RealMemory is wrong."""
    return slurm_mib * 2 < machine_mib


@dataclass(frozen=True, slots=True)
class MtuProblem:
    """An interface with another MTU than its peers.

    Attributes:
        node: where it is.
        mtu: its own.
        usual: the declared one, or that of most nodes.
    """

    node: str
    mtu: int
    usual: int


def mtu_problems(mtus: Mapping[str, int], declared: int = 0) -> tuple[MtuProblem, ...]:
    """The nodes whose interface has not the MTU that is declared, or that most nodes have.

    Args:
        mtus: of one interface of each node.
        declared: 0 where the cluster file declares none.
    """
    usual = declared or next((mtu for mtu, _ in Counter(mtus.values()).most_common(1)), 0)
    return tuple(MtuProblem(node, mtu, usual) for node, mtu in mtus.items() if mtu != usual)


class VersionFault(StrEnum):
    """What is wrong with a version of Slurm, compared with the expected one."""

    UNREADABLE = "is not a version"
    NEWER = "is newer"
    OTHER = "is another"


def version_fault(version: str, expected: str) -> VersionFault | None:
    """What is wrong with a version; None where it is as expected, or either is unknown."""
    if version == expected or not (version and expected):
        return None
    try:
        newer = SlurmVersion.parse(version) > SlurmVersion.parse(expected)
    except CorralError:
        return VersionFault.UNREADABLE
    return VersionFault.NEWER if newer else VersionFault.OTHER


def differing_files(
    digests: Mapping[PurePosixPath, str], expected: Mapping[str, str]
) -> tuple[PurePosixPath, ...]:
    """Paths of files of Slurm's whose digest is not the expected one for a file of that name."""
    return tuple(
        path for path, digest in digests.items() if expected.get(path.name, digest) != digest
    )


class FolderFault(StrEnum):
    """What is wrong with a shared folder on a node."""

    SILENT = "does not answer"
    STALE = "is a stale handle"
    UNREADABLE = "cannot be read"


def folder_fault(answer: FolderAnswer) -> FolderFault | None:
    """What is wrong with a folder that answered so to ``storage.mounts``."""
    if answer.file_system:
        return None
    if answer.silent:
        return FolderFault.SILENT
    return FolderFault.STALE if answer.stale else FolderFault.UNREADABLE


class OwnerFault(StrEnum):
    """Why nothing of a user is put below a folder."""

    REPLACEABLE = "another user can replace it"
    UNKNOWN = "it cannot be judged"


def owner_fault(folder: UnsafeFolder) -> OwnerFault | None:
    """What ``folder-checks.sh`` refused a folder for; None for what another program printed."""
    match folder.risk:
        case Risk.TAKEN | Risk.OPEN:
            return OwnerFault.REPLACEABLE
        case Risk.UNREADABLE | Risk.LOOP:
            return OwnerFault.UNKNOWN
        case Risk.OTHER:
            return None


@dataclass(frozen=True, slots=True)
class DirectoryProblem:
    """What is wrong with a server of the directory, or a group of it.

    Attributes:
        name: address of the server, or the group.
        group: it is a group.
        text: what is wrong and what to do about it.
    """

    name: str
    group: bool
    text: str


def directory_problems(state: MachineState) -> tuple[DirectoryProblem, ...]:
    """Servers that do not let the node read the directory, and groups that SSSD does not know."""
    return tuple(
        DirectoryProblem(answer.name, answer.unknown, f"{answer.name} {answer.text}")
        for answer in state.get(DIRECTORY) or ()
        if not answer.good
    )


def backup_problem(backup: Backup) -> str:
    """Why the scheduled backup is not as declared: failed, off, late, gone; "" where it is.

    One that is late by less than its interval is under way, or the machine was off.
    """
    age = backup.since if backup.age is None else backup.age
    active = unit_state(backup.timer) is UnitState.ACTIVE
    good = "no backup was ever made"
    if backup.absent:
        good = f"the last good backup {backup.absent}: {backup.path}"
    elif backup.age is not None and backup.age < 0:
        good = f"the last good backup is {clock(-backup.age)} newer than the controller's clock"
    elif backup.age is not None:
        good = f"the last good backup is {clock(backup.age)} old"
    there = not backup.absent and 0 <= age <= 2 * backup.every
    if active and not backup.failed and there:
        return ""
    if backup.failed:
        return f"the last run failed, {good}"
    if not active:
        return f"corral-backup.timer is {backup.timer or 'not there'}, {good}"
    if backup.absent or age < 0:
        return good
    return f"{good}, and one is to be made every {clock(backup.every)}"


def key_ends(expires: str, now: datetime | None) -> timedelta | None:
    """How long a node key of the tailnet is still good, where that is less than ``KEY_ENDS_SOON``.

    Args:
        expires: RFC 3339; "" and Go's year 1 for a key that does not expire.
        now: with a time zone; None where the time is unknown.

    Returns:
        the time that is left, negative behind its end; None for a key that is good for longer, and
        where either time cannot be read.
    """
    if now is None or expires.startswith("0001-"):
        return None
    try:
        left = datetime.fromisoformat(expires) - now
    except (ValueError, TypeError, OverflowError):
        return None
    return left if left < KEY_ENDS_SOON else None


class GpuFault(StrEnum):
    """Why a machine's GPU cannot be given away."""

    NO_PROGRAM = "nvidia-smi is not installed"
    UNLISTED = "nvidia-smi does not list the GPU"
    MIG = "is in MIG mode"
    IN_USE = "is in use by process"


@dataclass(frozen=True, slots=True)
class GpuProblem:
    """What is wrong with a machine's GPUs.

    Attributes:
        fault: what kind of fault.
        text: the same in words, with the GPU.
        hint: what to do about it.
    """

    fault: GpuFault
    text: str
    hint: str


def amd_only(amd: Collection[str], nvidia: Collection[str]) -> bool:
    """Whether a machine's GPUs are AMD's, which Corral does not support.

    Processors of AMD's with graphics have that driver's file too, next to a GPU of NVIDIA's.

    Args:
        amd: device files of AMD's driver for computing.
        nvidia: NVIDIA's GPUs, by whatever name.
    """
    return bool(amd) and not nvidia


def driver_problem(
    there: Collection[str], listed: Collection[str], programs: Iterable[PurePosixPath]
) -> GpuProblem | None:
    """Why nvidia-smi does not show all GPUs that should be listed; None where it does.

    Args:
        there: their PCI addresses.
        listed: those that it lists.
        programs: paths of the driver's programs.
    """
    if not any(path.name == "nvidia-smi" for path in programs):
        return GpuProblem(
            GpuFault.NO_PROGRAM,
            str(GpuFault.NO_PROGRAM),
            "install the driver's programs, or put nvidia-smi on the PATH",
        )
    if unlisted := sorted(set(there) - set(listed)):
        return GpuProblem(
            GpuFault.UNLISTED,
            f"{GpuFault.UNLISTED} at {', '.join(unlisted)}",
            "run nvidia-smi; a GPU that fell off the bus (Xid 79) needs a reboot",
        )
    return None


def gpu_problem(gpu: HostGpu) -> GpuProblem | None:
    """Why jobs cannot have a GPU for themselves; None where they can."""
    if gpu.mig:
        return GpuProblem(
            GpuFault.MIG,
            f"{gpu.device} ({gpu.name}) {GpuFault.MIG}",
            f"nvidia-smi -i {gpu.uuid} -mig 0 (as root, with no process on it)",
        )
    if gpu.processes:
        return GpuProblem(
            GpuFault.IN_USE,
            f"{gpu.device} ({gpu.name}) {GpuFault.IN_USE} {', '.join(gpu.processes)}",
            "end it: Slurm would give the GPU to a job too",
        )
    return None


def missing_devices(there: Collection[str], count: int, files: Sequence[str]) -> tuple[str, ...]:
    """The device files that are missing, ``/dev/nvidia*`` for one whose name is unknown.

    Args:
        there: the device files of the machine.
        count: GPUs that the cluster file declares.
        files: those that gres.conf names; empty where it names none.
    """
    if files:
        return tuple(file for file in files if file not in there)
    return ("/dev/nvidia*",) * max(count - len(there), 0)


CORRECTED_AT_MOST: Final = 20_000_000
"""Corrected errors of a GPU's memory (azurehpc-health-checks, for DRAM)."""


class EccFault(StrEnum):
    """Why a GPU's memory is not to be used."""

    UNCORRECTED = "memory errors that could not be corrected"
    CORRECTED = "memory errors that were corrected"


def ecc_faults(uncorrected: float | None, corrected: float | None) -> tuple[EccFault, ...]:
    """What is wrong with a GPU's memory, from its counters since the last reset.

    Args:
        uncorrected: errors, None where the GPU does not count them.
        corrected: the same of errors that were corrected.
    """
    faults = (
        (EccFault.UNCORRECTED, uncorrected, 0),
        (EccFault.CORRECTED, corrected, CORRECTED_AT_MOST),
    )
    return tuple(fault for fault, count, most in faults if count is not None and count > most)


ROWS_AT_MOST: Final = 10
"""Replaced rows of a GPU's memory (SuperBench: 83 % of nodes with more regress)."""


class RemapFault(StrEnum):
    """What is wrong with the rows of a GPU's memory."""

    FAILED = "a row of memory could not be replaced"
    PENDING = "a row of memory waits for a reset to be replaced"
    MANY = "rows of memory are replaced"

    @property
    def takes_out(self) -> bool:
        """Whether the GPU is not to be used: it needs a reset, or is to be replaced.

        A row that waits: DCGM, NVIDIA's own validation, fails and isolates the GPU
        (DCGM_FR_PENDING_ROW_REMAP is DCGM_ERROR_ISOLATE). NVIDIA's manual (GPU memory error
        management) lets new work begin before the reset; NVML's gives the reason: errors are
        contained and pages taken offline until then. Of the five families of GPUs that remap rows
        three do that.
        """
        return self is not RemapFault.MANY


def remap_faults(rows: Mapping[str, object]) -> tuple[RemapFault, ...]:
    """What is wrong with a GPU's rows.

    Args:
        rows: fields ``remapped_rows.NAME`` of nvidia-smi by name; empty where it has none.
    """
    counts = [rows.get(name) for name in ("correctable", "uncorrectable")]
    many = sum(count for count in counts if isinstance(count, int)) > ROWS_AT_MOST
    faults = (
        (RemapFault.FAILED, rows.get("failure") in _YES),
        (RemapFault.PENDING, rows.get("pending") in _YES),
        (RemapFault.MANY, many),
    )
    return tuple(fault for fault, true in faults if true)


_YES: Final = ("Yes", 1)


class LinkFault(StrEnum):
    """What a PCIe link lacks."""

    LANES = "lanes"
    GENERATION = "generation"


def link_faults(
    width: float | None, most: float | None, generation: float | None, newest: float | None
) -> tuple[LinkFault, ...]:
    """What a GPU's PCIe link lacks; nothing where a figure is unknown.

    Args:
        width: lanes now.
        most: lanes that GPU and slot can have.
        generation: now, not at rest.
        newest: generation that GPU and slot can have.
    """
    pairs = ((LinkFault.LANES, width, most), (LinkFault.GENERATION, generation, newest))
    return tuple(fault for fault, now, best in pairs if now and best and now < best)
