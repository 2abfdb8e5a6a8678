"""All known failures, by id. Data only; ``docs/reference/failures.md`` is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from corral.doctor.catalog import (
    cloud,
    fabric,
    gpu,
    health,
    identity,
    machine,
    network,
    nodes,
    slurm,
    tcpxo,
)
from corral.doctor.model import Failure

_ROOMS: Final = (machine, network, identity, gpu, slurm, nodes, fabric, cloud, health, tcpxo)
CATALOG: Final[Mapping[str, Failure]] = MappingProxyType(
    {f.id: f for f in sorted((f for m in _ROOMS for f in m.FAILURES), key=lambda f: f.id)}
)
"""Failure by id."""
