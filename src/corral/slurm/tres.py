"""Slurm's lists of trackable resources: ``cpu=2,mem=5845M,gres/gpu=2``. Pure."""

from __future__ import annotations

import re
from typing import Final

_COUNT: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_MIB: Final = {"K": 1 / 1024, "": 1, "M": 1, "G": 1 << 10, "T": 1 << 20, "P": 1 << 30}


def counts(text: str) -> dict[str, int]:
    """Each resource's count, memory in MiB, also without a unit. Others are left out."""
    amounts: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        match = _COUNT.fullmatch(value.strip())
        if match is not None:
            unit = _MIB[match[2]] if name == "mem" else 1
            amounts[name.strip()] = int(float(match[1]) * unit)
    return amounts
