"""Settings of slurm.conf by the number of compute nodes; ``sizes.yaml`` has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from corral.slurm.conf.conf_file import Setting
from corral.slurm.version import SlurmVersion, has
from corral.spec.slurm.releases import Feature
from corral.tables import Row, read_table


class SizeRow(Row):
    """One setting; ``sizes.yaml`` has the meanings."""

    key: str
    above: int
    up_to: int | None = None
    value: str
    feature: Feature | None = None


@cache
def sizes() -> tuple[SizeRow, ...]:
    """All settings by size."""
    return read_table("corral.spec.slurm", "sizes.yaml", tuple[SizeRow, ...])


def by_size(nodes: int, version: SlurmVersion) -> Iterator[Setting]:
    """What a cluster of so many compute nodes has in place of the defaults, or joined with them."""
    cube_root = next(root for root in range(nodes + 1) if root**3 >= nodes)
    for row in sizes():
        fits = nodes > row.above and (row.up_to is None or nodes <= row.up_to)
        if fits and (row.feature is None or has(version, row.feature)):
            yield Setting(row.key, row.value.format(cube_root=cube_root))
