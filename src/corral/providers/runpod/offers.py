"""What RunPod has on sale, as its list of GPU types states it: price and capacity."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from corral.providers.cloud.model import Capacity, Offer
from corral.providers.cloud.response import amount
from corral.providers.runpod import calls

LEVELS: Final[Mapping[str, Capacity]] = MappingProxyType(
    {
        "NONE": Capacity.NONE,
        "LOW": Capacity.LOW,
        "MEDIUM": Capacity.SOME,
        "HIGH": Capacity.HIGH,
    }
)


def offers_of(gpu: Mapping[str, Any]) -> list[Offer]:
    """The offers of a GPU type, one for each data center and number of GPUs."""
    most = int(gpu["maxCount"]["secure"])
    if not gpu["secure"] or most < 1:
        return []
    where = [(str(d["id"]), str(d["availability"])) for d in gpu.get("dataCenters", ())]
    where = where or [("", str(gpu.get("availability", "")))]
    counts = [n for n in (1, 2, 4, 8) if n <= most]
    return [
        Offer(
            calls.NAME,
            str(gpu["id"]),
            region,
            str(gpu["name"]),
            count,
            0,
            0,
            amount(gpu["price"]["secure"]) * count,
            LEVELS.get(level, Capacity.UNKNOWN),
        )
        for region, level in where
        for count in counts
    ]
