"""Figures of Google Cloud: machines, zones, sizes of file systems (``figures.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, model_validator

from corral.tables import Row, pattern_that_compiles, read_table


class Machine(Row):
    """A machine type.

    Attributes:
        cpus: threads, two to a core.
        gib: memory.
        sockets: of its processors.
        gpus: how many it has.
        networks: for GPU traffic, each with a NIC.
    """

    cpus: int
    gib: int
    sockets: int = 1
    gpus: int = 0
    networks: int = 0

    @property
    def cores_per_socket(self) -> int:
        return self.cpus // self.sockets // 2


class Setup(Row):
    """Machine types of what the toolkit makes next to the nodes."""

    controller: str
    login: str
    image: str


class Lustre(Row):
    """Sizes of Managed Lustre by throughput tier."""

    source: str
    step_gib: Mapping[int, int]
    usual_gib: int


class Filestore(Row):
    """The tier of Filestore that blueprints ask for."""

    source: str
    tier: str
    least_gib: int


class Network(Row):
    """MTU and address ranges."""

    mtu: int
    system: str
    gpus: str


class Form(Row):
    """How a value is written, as a regular expression and in words."""

    pattern: Annotated[str, AfterValidator(pattern_that_compiles)]
    words: str


class Figures(Row):
    """All of them."""

    machines: Mapping[str, Machine]
    setup: Setup
    zones: tuple[str, ...]
    lustre: Lustre
    filestore: Filestore
    local_ssd_gb: int
    boot_disk_gb: int
    network: Network
    existing: Mapping[str, Form]

    @model_validator(mode="after")
    def _known(self) -> Figures:
        for name in (self.setup.controller, self.setup.login, self.setup.image):
            if name not in self.machines:
                raise ValueError(f"{name} is not among the machines")
        return self

    def setup_cpus(self) -> int:
        """CPUs of controller, login node and the machine that the image is made on."""
        names = (self.setup.controller, self.setup.login, self.setup.image)
        return sum(self.machines[name].cpus for name in names)


@cache
def figures() -> Figures:
    """The table."""
    return read_table("corral.providers.gcp", "figures.yaml", Figures)
