"""Questions about GPUs, and Slurm's type for each (``gpu_types.yaml``). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.inspect.question import Answers, Question
from corral.slurm.conf.parse import Document
from corral.spec.slurm.hostlist import expand
from corral.tables import Row, read_table


def _number(device: str) -> int:
    """N of ``/dev/nvidiaN``."""
    return int(device.removeprefix("/dev/nvidia"))


def gpu_files(answer: str) -> tuple[str, ...]:
    """Device files of GPUs, in the order of their numbers."""
    return tuple(sorted(re.findall(r"^/dev/nvidia\d+$", answer, re.MULTILINE), key=_number))


DEVICES: Final = Question(
    "devices", sh('for f in /dev/nvidia[0-9]*; do [ ! -c "$f" ] || echo "$f"; done'), gpu_files
)


def bus_address(text: str) -> str:
    """A PCI address in one form: nvidia-smi writes 8 domain digits, the kernel 4."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def device_files(answer: str) -> dict[str, str]:
    """PCI address to device file, from the driver's own list: nvidia-smi's order is PCI order."""
    devices: dict[str, str] = {}
    bus = ""
    for line in answer.splitlines():
        key, _, value = line.partition(":")
        if key == "Bus Location":
            bus = bus_address(value.strip())
        elif key == "Device Minor":
            devices[bus] = f"/dev/nvidia{int(value)}"
    return devices


MINORS: Final = Question(
    "minors",
    sh(
        """\
for f in /proc/driver/nvidia/gpus/*/information; do
  [ ! -r "$f" ] || grep -E '^(Model|Bus Location|Device Minor):' "$f"
done"""
    ),
    device_files,
)
"""PCI address to device file, of GPUs whose driver is loaded."""


def _smi_rows(answer: str) -> list[list[str]]:
    return [[field.strip() for field in line.split(",")] for line in answer.splitlines()]


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One of NVIDIA's devices.

    Attributes:
        device: its id, ``2330``.
        address: where it is on the bus; "" in answers of an older Corral.
        gpu: it is a GPU (VGA 0300 and 3D controllers 0302).
        counts: it is a GPU or an NVSwitch.
    """

    device: str
    address: str
    gpu: bool
    counts: bool


def _pci_device(kind: str, device: str, address: str) -> PciDevice:
    # Class 03 is a display or 3D controller, 0680 a bridge of no other kind: an NVSwitch.
    return PciDevice(
        device.removeprefix("0x"),
        address,
        gpu=kind.startswith(("0x0300", "0x0302")),
        counts=kind.startswith(("0x03", "0x0680")),
    )


def pci_devices(answer: str) -> tuple[PciDevice, ...]:
    """NVIDIA's devices, from lines ``CLASS ID ADDRESS``."""
    rows = ([*line.split(), "", "", ""][:3] for line in answer.splitlines())
    return tuple(_pci_device(kind, device, address) for kind, device, address in rows)


SMI: Final = Question(
    "smi",
    sh(
        """\
if command -v nvidia-smi >/dev/null; then
  t=; ! command -v timeout >/dev/null || t='timeout 20'
  $t nvidia-smi --query-gpu=pci.bus_id,name,memory.total --format=csv,noheader,nounits 2>/dev/null
fi"""
    ),
    _smi_rows,
)
PCI: Final = Question(
    "pci",
    sh(
        """\
for d in /sys/bus/pci/devices/*; do
  v= c= i=
  {{ read -r v <"$d/vendor" && read -r c <"$d/class" && read -r i <"$d/device"; }} 2>/dev/null
  [ "$v" != 0x10de ] || echo "$c $i ${{d##*/}}"
done"""
    ),
    pci_devices,
)
QUESTIONS: Final = (
    DEVICES,
    MINORS,
    SMI,
    PCI,
)


def gpus(parts: Answers) -> tuple[tuple[str, str, int], ...]:
    """(device file, name, MiB) of each GPU, in the order of their device files."""
    minors = MINORS.read_or_empty(parts)
    named: dict[str, tuple[str, int]] = {}
    for index, fields in enumerate(SMI.read_or_empty(parts)):
        if len(fields) == 3:  # noqa: PLR2004  # else a message: the driver does not work
            device = minors.get(bus_address(fields[0]), f"/dev/nvidia{index}")
            named[device] = (fields[1], int(fields[2]) if fields[2].isdecimal() else 0)
    devices = set(DEVICES.read(parts))
    return tuple(
        (device, *named.get(device, ("", 0)))
        for device in sorted(devices | set(named), key=_number)
    )


def nvidia_pci(parts: Answers) -> tuple[str, ...]:
    """Device ids of NVIDIA's GPUs and NVSwitches, sorted, one per device: ``("22a3", "2330")``."""
    return tuple(sorted(each.device for each in PCI.read_or_empty(parts) if each.counts))


def gpu_pci(parts: Answers) -> tuple[str, ...]:
    """Device ids of NVIDIA's GPUs alone."""
    return tuple(each.device for each in PCI.read_or_empty(parts) if each.gpu)


def gpu_addresses(parts: Answers) -> tuple[str, ...]:
    """PCI addresses of NVIDIA's GPUs, with a driver or without; answers of old have none."""
    return tuple(each.address for each in PCI.read_or_empty(parts) if each.gpu and each.address)


def listed_addresses(parts: Answers) -> tuple[str, ...]:
    """PCI addresses of the GPUs that nvidia-smi lists."""
    rows = SMI.read_or_empty(parts)
    return tuple(bus_address(row[0]) for row in rows if len(row) == 3)  # noqa: PLR2004


def declared_files(gres: Document, node: str) -> tuple[str, ...]:
    """NVIDIA's device files of a node's GPUs in gres.conf; none where it names others or none."""
    files: list[str] = []
    for line in gres.lines():
        names = line.get("NodeName")
        if (line.get("Name") or "").lower() != "gpu" or not line.get("File"):
            continue
        with suppress(CorralError):
            if names is None or node in expand(names):
                files += expand(line.get("File") or "")
    return tuple(file for file in files if re.fullmatch(r"/dev/nvidia\d+", file))


class GpuType(Row):
    """A GPU's Slurm type.

    Attributes:
        device: PCI device id.
        type: what jobs ask for.
    """

    device: str
    type: str


@cache
def gpu_types() -> Mapping[str, str]:
    """Slurm types by PCI device id."""
    rows = read_table("corral.inspect", "gpu_types.yaml", tuple[GpuType, ...])
    return MappingProxyType({row.device: row.type for row in rows})


_NOISE: Final = re.compile(
    r"\b(NVIDIA|GeForce|Tesla|Quadro|Generation|SXM\d?|PCIe?|HBM\d\w*|NVL|\d+ ?GB)\b|[^A-Za-z0-9 ]"
)


def type_of(device: str, name: str = "") -> str:
    """Slurm's type for a GPU, "" when neither its id nor its name gives one.

    Args:
        device: PCI device id, four hexadecimal digits.
        name: what nvidia-smi calls it, such as ``NVIDIA GeForce RTX 5090``.
    """
    return gpu_types().get(device.lower(), "") or type_of_name(name)


def type_of_name(name: str) -> str:
    """``NVIDIA H100 80GB HBM3`` is ``h100``; "" for no name."""
    words = _NOISE.sub(" ", name.replace("-", " ")).split()
    return "".join(words).lower()[:63]
