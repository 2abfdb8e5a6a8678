"""NVIDIA GPUs by PCI device id: what a machine holds before it has a driver. A table.

Ids and names are those of the PCI ID Repository (pci-ids.ucw.cz) and of NVIDIA's list "Supported
NVIDIA GPU Products" in the driver's README; the Slurm type is the name jobs ask for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # GeForce
        "1e04": "rtx2080ti",
        "1e07": "rtx2080ti",
        "2203": "rtx3090ti",
        "2204": "rtx3090",
        "2206": "rtx3080",
        "2208": "rtx3080ti",
        "2684": "rtx4090",
        "2704": "rtx4080",
        "2782": "rtx4070ti",
        "2786": "rtx4070",
        "2b85": "rtx5090",
        "2c02": "rtx5080",
        "2c05": "rtx5070ti",
        "2f04": "rtx5070",
        # Workstations
        "2230": "rtxa6000",
        "2231": "rtxa5000",
        "26b1": "rtx6000ada",
        "2bb1": "rtxpro6000",
        # Servers
        "1db1": "v100",
        "1db4": "v100",
        "1db5": "v100",
        "1db6": "v100",
        "1eb8": "t4",
        "20b0": "a100",
        "20b2": "a100",
        "20b5": "a100",
        "20f1": "a100",
        "20b7": "a30",
        "2235": "a40",
        "26b5": "l40",
        "26b9": "l40s",
        "27b8": "l4",
        "2322": "h800",
        "2330": "h100",
        "2331": "h100",
        "2335": "h200",
        "2901": "b200",
    }
)

_NOISE: Final = re.compile(
    r"\b(NVIDIA|GeForce|Tesla|Quadro|Generation|SXM\d?|PCIe?|HBM\d\w*|NVL|\d+ ?GB)\b|[^A-Za-z0-9 ]"
)


def type_of(device: str, name: str = "") -> str:
    """Slurm's type for a GPU, "" when neither its id nor its name gives one.

    Args:
        device: PCI device id, four hexadecimal digits.
        name: what nvidia-smi calls it, such as ``NVIDIA GeForce RTX 5090``.
    """
    return TYPES.get(device.lower(), "") or type_of_name(name)


def type_of_name(name: str) -> str:
    """``NVIDIA H100 80GB HBM3`` is ``h100``; "" for no name."""
    words = _NOISE.sub(" ", name.replace("-", " ")).split()
    return "".join(words).lower()[:63]
