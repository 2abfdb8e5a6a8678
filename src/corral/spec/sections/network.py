"""Networks between machines: the tailnet that joins them, and the fabric's switches."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from corral.spec import values
from corral.spec.values import (
    AbsolutePath,
    ControlUrl,
    HostList,
    Model,
    Name,
    about,
)

TAILSCALE: Final = "https://api.tailscale.com"
"""Tailscale's own API; its nodes find their control server automatically."""


class Island(Model):
    """Groups whose nodes share a data network that is better than the mesh."""

    name: Name = about("restart", "Name of the island; also a Slurm feature: island-NAME.")
    groups: tuple[Name, ...] = about("restart", "Groups on it.", min_length=1)


class Mesh(Model):
    """The tailnet of a cluster (control: tailscale)."""

    url: ControlUrl = about(
        "refused",
        "Base URL of the control server: Tailscale's own, or that of your headscale. The key for "
        "it comes from the environment or a file, never from here.",
        default=TAILSCALE,
    )
    tag: Name | None = about(
        "none",
        "Tag of the nodes, without tag: before it; left out: corral- and the cluster's name.",
        default=None,
    )
    programs: AbsolutePath | None = about(
        "none",
        "Folder on this machine with the programs tailscale and tailscaled, which are put on the "
        "nodes; left out: package tailscale of the nodes' own package sources.",
        default=None,
    )
    key_minutes: int = about(
        "none",
        "Minutes that the key of a joining node is good for; it works once.",
        default=10,
        ge=2,
        le=1440,
    )
    islands: tuple[Island, ...] = about(
        "restart",
        "Groups that share a data network; each group that is left out, and each node that "
        "the mesh reaches by TCP only, is a separate island.",
        default=(),
    )
    jobs: Literal["within-an-island", "across-islands"] = about(
        "restart",
        "Whether a job of several nodes stays within one island. Across islands its nodes talk "
        "over the mesh, which rarely pays for training.",
        default="within-an-island",
    )


SwitchName = Annotated[str, Field(pattern=values.FEATURE.pattern)]


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
