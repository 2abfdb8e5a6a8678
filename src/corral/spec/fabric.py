"""What hangs on what: the switches of the network between nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from corral.spec import texts
from corral.spec.kinds import HostList, Model, about

SwitchName = Annotated[str, Field(pattern=texts.FEATURE.pattern)]


class Switch(Model):
    """A switch with nodes on it, or one above other switches."""

    name: SwitchName = about("restart", "Its name.")
    nodes: HostList | None = about("restart", "Nodes on it.", default=None)
    switches: tuple[SwitchName, ...] = about("restart", "Switches below it.", default=())


class Topology(Model):
    """Where Slurm places jobs of several nodes: under as few switches as it can."""

    plugin: Literal["tree", "block"] = about(
        "restart",
        "tree: switches in levels; block: the switches with nodes are blocks, and a job gets "
        "complete blocks where it can (Slurm 23.11 and later).",
        default="tree",
    )
    switches: tuple[Switch, ...] = about(
        "restart",
        "All of them, each node on one; corral export topology makes them from ibnetdiscover.",
        min_length=1,
    )
