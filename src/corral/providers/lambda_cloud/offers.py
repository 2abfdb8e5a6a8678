"""What Lambda Cloud has on sale, as its list of instance types states it: price and capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corral.providers.cloud.model import Capacity, Offer
from corral.providers.cloud.response import amount
from corral.providers.lambda_cloud import calls


def offers_of(item: Mapping[str, Any], regions: Sequence[str]) -> list[Offer]:
    """The offers of an instance type, one for each region."""
    kind, specs = item["instance_type"], item["instance_type"]["specs"]
    there = {str(r["name"]) for r in item["regions_with_capacity_available"]}
    return [
        Offer(
            calls.NAME,
            str(kind["name"]),
            region,
            str(kind["gpu_description"]) if specs["gpus"] else "",
            int(specs["gpus"]),
            int(specs["vcpus"]),
            int(specs["memory_gib"]) * 1024,
            amount(kind["price_cents_per_hour"]) / 100,
            Capacity.SOME if region in there else Capacity.NONE,
        )
        for region in dict.fromkeys((*regions, *sorted(there)))
    ]
