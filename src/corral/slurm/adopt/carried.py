"""The keys of Slurm's files that a cluster file made of them carries over (``carried.yaml``)."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import AfterValidator

from corral.tables import Row, Words, read_table


def _lower(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key.lower() for key in keys)


Keys = Annotated[Words, AfterValidator(_lower)]
"""In lower case."""


class Carried(Row):
    """Keys by what becomes of them.

    Attributes:
        settings: of slurm.conf, for ``slurm.settings``, in this order.
        replaced: of slurm.conf, whose meaning a field of the cluster file has, or Corral itself.
        node: of a node's line, that groups have or machines show.
        partition: of a partition's line, that partitions have.
        access: of a partition's line, that restrict who may submit.
    """

    settings: Keys
    replaced: Keys
    node: Keys
    partition: Keys
    access: Keys


@cache
def carried() -> Carried:
    """The table."""
    return read_table("corral.slurm.adopt", "carried.yaml", Carried)
