"""Rules over what machines report: each is written once here.

A rule finds facts (this name resolves to another address); its observer decides what they
mean there: a failed check of the proof, a failure of the doctor's catalogue, a line of the status.
``RULES`` is the table of who uses which, and for what; ``docs/reference/checks.md`` shows it, and
a test compares it with the imports and calls of the observers.

Health is a shell program that runs on nodes without Corral (decision 0037): it cannot call a rule,
and tests compare its checks of the same facts. Room on disks is not a rule: the doctor asks whether
daemons can write now (50 MiB, F67), the health check whether a job would fill the disk (5 % and
2 GiB, health.disk). Those are two facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final, Self

from corral.errors import CorralError
from corral.inspect.machine import CLOCK, NAMES, Resolved
from corral.inspect.nvidia import DriverState, HostGpu
from corral.inspect.question import MachineState
from corral.inspect.storage import FolderAnswer
from corral.slurm.records import Node
from corral.slurm.version import SlurmVersion


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


@dataclass(frozen=True, slots=True)
class Use:
    """What an observer uses a rule for.

    Attributes:
        decides: checks of the proof, failures of the doctor's catalogue and what it explains,
            subjects of the status, columns and counts of the page, checks of the node's health,
            fields of what a provider observed.
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
        name: of the function here, or of the property of ``slurm.states.nodes.NodeState``.
        finds: the fact.
        used_by: who uses it for what; health's row names its checks that judge the same fact.
    """

    name: str
    finds: str
    used_by: Mapping[Observer, Use]


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
        },
    ),
    Rule(
        "clock_offset",
        "how far a node's clock is off",
        {
            Observer.PROOF: Use(("smoke.clocks",), ("clock",), "between any two nodes"),
            Observer.DOCTOR: Use(("F02",), ("clock",), "from most others"),
            Observer.DISCOVERY: Use(("clock",), ("clock",), "from this machine's"),
            Observer.HEALTH: Use(("health.clock",), how="from the controller's"),
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
        "key_ends",
        "a node key of the tailnet that ends soon",
        {
            Observer.DOCTOR: Use(("F34",), ("tailnet",), "by the node's own clock"),
            Observer.MESH: Use(("problem",), how="by the clock of this machine"),
        },
    ),
    Rule(
        "driver_problem",
        "nvidia-smi that is missing, or does not list a GPU of the kernel module",
        {
            Observer.THIS_MACHINE: Use(("refusal",), _GPU_LIST, "before Slurm is set up"),
            Observer.CONTAINERS: Use(("refusal",), _GPU_LIST, "where a node is to have a GPU"),
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
    if addresses[0].is_loopback:
        return NameFault.LOOPBACK
    if any(address.is_loopback for address in addresses):
        return NameFault.ALSO_LOOPBACK
    texts = [str(address) for address in addresses]
    if expected and expected not in texts:
        return NameFault.OTHER
    return NameFault.LATER if expected and expected != texts[0] else None


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


def driver_problem(state: DriverState) -> GpuProblem | None:
    """Why nvidia-smi does not show all GPUs of the kernel module; None where it does."""
    if not any(path.name == "nvidia-smi" for path in state.programs):
        return GpuProblem(
            GpuFault.NO_PROGRAM,
            str(GpuFault.NO_PROGRAM),
            "install the driver's programs, or put nvidia-smi on the PATH",
        )
    if unlisted := sorted(set(state.loaded) - {gpu.bus for gpu in state.gpus}):
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
