"""The table of rules about files that somebody else wrote."""

from __future__ import annotations

from typing import Final

from corral.slurm.adopt.rule import Rule
from corral.slurm.adopt.rules import (
    cluster,
    database,
    gres,
    isolation,
    keys,
    machines,
    network,
    nodes,
    partitions,
    selection,
    setup,
    state,
    values,
)

RULES: Final[tuple[Rule, ...]] = (
    *keys.RULES,
    *values.RULES,
    *cluster.RULES,
    *state.RULES,
    *selection.RULES,
    *isolation.RULES,
    *nodes.RULES,
    *machines.RULES,
    *partitions.RULES,
    *gres.RULES,
    *database.RULES,
    *network.RULES,
    *setup.RULES,
)
"""All rules, in the order of the reference page."""
