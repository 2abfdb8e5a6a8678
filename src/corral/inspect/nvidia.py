"""Questions about a machine's NVIDIA GPUs and driver, for those who pass them on. Pure."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from corral.hosts.quote import Script, join, sh
from corral.inspect.gpu import MINORS, bus_address
from corral.inspect.question import Answers, Question

_SMI: Final = Script("PATH=$PATH:/usr/local/nvidia/bin; export PATH")
_LIBRARY: Final = re.compile(r"\s*(\S+) \(libc6,(?:x86-64|AArch64)[^)]*\) => (\S+)")


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as nvidia-smi lists it.

    Attributes:
        bus: PCI address as the kernel writes it, ``0000:1b:00.0``.
        uuid: the driver's name for it, ``GPU-...``.
        name: its model, such as ``NVIDIA H200``.
        memory_mib: its memory.
        mig: whether it is in MIG mode.
    """

    bus: str
    uuid: str
    name: str
    memory_mib: int
    mig: bool


@dataclass(frozen=True, slots=True)
class Cards:
    """What nvidia-smi lists.

    Attributes:
        rows: the GPUs, in its order.
        printed: all that it printed, its messages among it.
    """

    rows: tuple[Card, ...]
    printed: str


@dataclass(frozen=True, slots=True)
class HostGpu:
    """One GPU.

    Attributes:
        device: its file, such as ``/dev/nvidia3``: the driver's number, not nvidia-smi's.
        bus: PCI address as the kernel writes it, ``0000:1b:00.0``.
        uuid: the driver's name for it, ``GPU-...``.
        name: its model, such as ``NVIDIA H200``.
        memory_mib: its memory.
        mig: whether it is in MIG mode.
        processes: processes that compute on it, ``PID (NAME)``.
    """

    device: str
    bus: str
    uuid: str
    name: str
    memory_mib: int
    mig: bool = False
    processes: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """N of ``/dev/nvidiaN``."""
        return int(self.device.removeprefix("/dev/nvidia"))


@dataclass(frozen=True, slots=True)
class DriverState:
    """The GPUs of a machine and the programs of their driver.

    Attributes:
        loaded: PCI addresses of the GPUs that the kernel module has, working or not.
        gpus: those of them that nvidia-smi lists, by number.
        programs: paths of the driver's programs.
        printed: what nvidia-smi printed.
    """

    loaded: tuple[str, ...]
    gpus: tuple[HostGpu, ...]
    programs: tuple[PurePosixPath, ...]
    printed: str

    @property
    def listed(self) -> tuple[str, ...]:
        """PCI addresses of the GPUs that nvidia-smi lists."""
        return tuple(gpu.bus for gpu in self.gpus)


def addresses(answer: str) -> tuple[str, ...]:
    """PCI addresses, in one form."""
    return tuple(map(bus_address, answer.split()))


def _rows(answer: str, fields: int) -> list[list[str]]:
    """Rows of CSV with so many fields; other lines are messages."""
    rows = csv.reader(answer.splitlines(), skipinitialspace=True)
    return [[field.strip() for field in row] for row in rows if len(row) == fields]


def cards(answer: str) -> Cards:
    """What ``CARDS`` prints."""
    rows = (
        Card(bus_address(bus), uuid, name, int(mib) if mib.isdecimal() else 0, mig=mig == "Enabled")
        for bus, uuid, name, mib, mig in _rows(answer, 5)
    )
    return Cards(tuple(rows), answer)


def program_paths(answer: str) -> tuple[PurePosixPath, ...]:
    """Paths, a line each."""
    return tuple(map(PurePosixPath, answer.split()))


def users(answer: str) -> dict[str, tuple[str, ...]]:
    """Processes that compute, ``PID (NAME)``, by the uuid of their GPU."""
    by_gpu: dict[str, list[str]] = {}
    for uuid, process, name in _rows(answer, 3):
        by_gpu.setdefault(uuid, []).append(f"{process} ({name})")
    return {uuid: tuple(processes) for uuid, processes in by_gpu.items()}


# The capabilities "compute" and "utility" of NVIDIA's container toolkit (libnvidia-container,
# src/nvc_info.c); graphics and video are left out.
_NEEDED: Final = re.compile(
    r"lib(?:cuda|cudadebugger|nvidia-(?:ml|cfg|nscq|opencl|gpucomp|ptxjitcompiler|allocator|nvvm"
    r"|nvvm70|pkcs11|pkcs11-openssl3|compiler|fatbinaryloader))\.so\.[0-9.]+"
)


def libraries(answer: str) -> dict[str, str]:
    """Path by soname of the driver's 64-bit libraries for computing.

    The first of two is the one that the loader takes.
    """
    paths: dict[str, str] = {}
    for line in answer.splitlines():
        if (match := _LIBRARY.match(line)) and _NEEDED.fullmatch(match[1]):
            paths.setdefault(match[1], match[2])
    return paths


LISTED: Final = Question(
    "listed",
    sh("for d in /proc/driver/nvidia/gpus/*/; do [ ! -d $d ] || basename $d; done"),
    addresses,
)
"""PCI addresses of the GPUs that the kernel module has, working or not."""
CARDS: Final = Question(
    "cards",
    join(
        [
            _SMI,
            sh(
                "timeout 40 nvidia-smi --format=csv,noheader,nounits "
                "--query-gpu=pci.bus_id,uuid,name,memory.total,mig.mode.current 2>&1"
            ),
        ]
    ),
    cards,
)
USERS: Final = Question(
    "users",
    join(
        [
            _SMI,
            sh(
                "timeout 40 nvidia-smi --format=csv,noheader,nounits "
                "--query-compute-apps=gpu_uuid,pid,process_name 2>/dev/null"
            ),
        ]
    ),
    users,
)
LIBRARIES: Final = Question("libraries", sh("PATH=$PATH:/sbin:/usr/sbin ldconfig -p"), libraries)
PROGRAMS: Final = Question(
    "programs",
    join([_SMI, sh("command -v nvidia-smi nvidia-debugdump nvidia-cuda-mps-control; :")]),
    program_paths,
)
AMD: Final = Question("amd", sh("ls /dev/kfd 2>/dev/null; :"), str.split)
"""The device file of AMD's driver for computing."""
DEVICES: Final = Question(
    "device-files",
    sh("for f in /dev/nvidia*; do [ ! -c $f ] || echo $f; done"),
    str.split,
)
QUESTIONS: Final = (LISTED, MINORS, CARDS, USERS, LIBRARIES, PROGRAMS, DEVICES)
"""All about GPUs and driver."""
DRIVER: Final = (LISTED, MINORS, CARDS, USERS, PROGRAMS)
"""Those that ``driver_state`` reads."""


def driver_state(answers: Answers) -> DriverState:
    """The answers to ``DRIVER``, or to ``QUESTIONS``."""
    listed = CARDS.read(answers)
    return DriverState(
        loaded=LISTED.read(answers),
        gpus=_gpus(listed, MINORS.read(answers), USERS.read(answers)),
        programs=PROGRAMS.read(answers),
        printed=listed.printed,
    )


def _gpus(
    listed: Cards, devices: Mapping[str, str], processes: Mapping[str, tuple[str, ...]]
) -> tuple[HostGpu, ...]:
    gpus = [
        HostGpu(
            device=devices[card.bus],
            bus=card.bus,
            uuid=card.uuid,
            name=card.name,
            memory_mib=card.memory_mib,
            mig=card.mig,
            processes=processes.get(card.uuid, ()),
        )
        for card in listed.rows
        if card.bus in devices
    ]
    return tuple(sorted(gpus, key=lambda gpu: gpu.number))
