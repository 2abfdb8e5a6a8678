"""Slurm features that Corral gives to nodes, in addition to those of the cluster file. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_ISLAND: Final = "island-"
ISLANDS_JOINED: Final = "islands-joined"
"""Of nodes whose island one job may leave."""
NO_CGROUPS: Final = "no-cgroups"
"""Of nodes where jobs are not fenced from each other."""


def island_feature(island: str) -> str:
    """The feature of an island's nodes: a part of the mesh with its own fast network."""
    return f"{_ISLAND}{island}"


def island_of(features: Iterable[str]) -> str:
    """A node's island by its features, "" for none."""
    return next((f.removeprefix(_ISLAND) for f in features if f.startswith(_ISLAND)), "")
