"""A simulated cloud whose calls are checked against the provider's recorded document."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corral.testing import rentals
from corral.testing.clouds import SIMS
from corral.testing.clouds.contract import OpenApi

OPENAPI = Path(__file__).parents[1] / "recorded" / "openapi"
CONTRACTS = {name: OpenApi.load(OPENAPI / sim.document, sim.failure) for name, sim in SIMS.items()}


@dataclass
class World(rentals.World):
    """The cloud with its document."""

    def __post_init__(self) -> None:
        self.contract = CONTRACTS[self.name]
        super().__post_init__()
