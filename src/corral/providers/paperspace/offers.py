"""What Paperspace has on sale: capacity by its API, price and size by ``prices.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from corral.providers.cloud.model import Capacity, Offer
from corral.providers.paperspace import calls
from corral.tables import Row, read_table


class Price(Row):
    """A machine type: its price in dollars an hour, and what is in it."""

    type: str
    price: float
    gpu: str
    gpus: int
    vcpus: int
    memory_gib: int


@cache
def prices() -> Mapping[str, Price]:
    """By machine type."""
    rows = read_table("corral.providers.paperspace", "prices.yaml", tuple[Price, ...])
    return MappingProxyType({row.type: row for row in rows})


def offer_of(name: str, free: bool, region: str) -> Offer:
    """The offer of a machine type; without price and size where the table lacks it."""
    capacity = Capacity.UNKNOWN if free else Capacity.NONE
    row = prices().get(name)
    if row is None:
        return Offer(calls.NAME, name, region, "", 0, 0, 0, None, capacity)
    memory_mib = row.memory_gib * 1024
    return Offer(
        calls.NAME, name, region, row.gpu, row.gpus, row.vcpus, memory_mib, row.price, capacity
    )
