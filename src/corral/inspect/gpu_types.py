"""Slurm's type for a GPU, by its PCI device id (``gpu_types.yaml``) or its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from corral.tables import Row, read_table


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
