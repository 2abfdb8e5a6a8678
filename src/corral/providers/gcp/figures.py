"""Figures of Google Cloud: machines without GPUs, sizes of file systems (``figures.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

from pydantic import AfterValidator

from corral.tables import Row, pattern_that_compiles, read_table


class CpuMachine(Row):
    """A machine type without GPUs: CPUs, two to a core, and GiB."""

    cpus: int
    gib: int


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


class Form(Row):
    """How a value is written, as a regular expression and in words."""

    pattern: Annotated[str, AfterValidator(pattern_that_compiles)]
    words: str


class Disks(Row):
    """Types of disks that blueprints do not name, and the quota that each type counts against."""

    image: str
    controller: str
    cpu_node: str
    state: str
    state_gb: int
    quotas: Mapping[str, str]


class Store(Row):
    """Where Google lists resources of one type that the Compute API has not."""

    what: str
    type: str
    url: str
    variable: str
    list: str
    items: str
    made: str


class Notice(Row):
    """How a machine hears that it is taken back: address, header, answer, seconds until then."""

    source: str
    url: str
    header: str
    taken: str
    seconds: int


class Figures(Row):
    """All of them."""

    cpu_machines: Mapping[str, CpuMachine]
    cpu_quota: str
    lustre: Lustre
    filestore: Filestore
    local_ssd_gb: int
    boot_disk_gb: int
    disks: Disks
    existing: Mapping[str, Form]
    stores: Mapping[str, Store]
    notice: Notice


@cache
def figures() -> Figures:
    """The table."""
    return read_table("corral.providers.gcp", "figures.yaml", Figures)
