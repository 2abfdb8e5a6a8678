"""Rules about nodes in containers of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.spec.findings import Level
from corral.spec.view import Problem, Rule, View

AT_MOST: Final = 64
SMALL_MIB: Final = 1024
SMALL_CONTROLLER_MIB: Final = 1536


def mixed_providers(view: View) -> Iterator[Problem]:
    """Containers and machines in one cluster cannot reach each other."""
    here, there = view.where(lambda c: c.containers), view.where(lambda c: c.owned)
    if here and there:
        message = f"{here[0].group.name} is embedded and {there[0].group.name} is not"
        hint = "embedded nodes cannot be reached from other machines; make two clusters of it"
        yield Problem(here[0].at("provider"), message, hint)


def too_many(view: View) -> Iterator[Problem]:
    """More embedded nodes than one machine is likely to carry."""
    groups = view.where(lambda c: c.containers)
    total = sum(len(group.names) for group in groups)
    if total > AT_MOST:
        message = f"{total} embedded nodes, each with its own systemd, on one machine"
        yield Problem(groups[0].at("nodes"), message, "some ten nodes rehearse the same")


def memory_small(view: View) -> Iterator[Problem]:
    """Too little memory for what runs on a node."""
    database = view.spec.slurm.accounting
    for group in view.where(lambda c: c.containers):
        memory = group.group.memory_mib
        need = SMALL_CONTROLLER_MIB if database and view.controller in group.names else SMALL_MIB
        if memory is not None and memory < need:
            message = f"{memory} MiB is little for systemd, sshd and Slurm"
            yield Problem(group.at("memory_mib"), message, f"write {need} or more, or leave it out")


def tailnet(view: View) -> Iterator[Problem]:
    """Embedded nodes, which are on one network of this machine."""
    if view.spec.network.control == "tailscale" and view.where(lambda c: c.containers):
        message = "embedded nodes share a network of this machine and join no tailnet"
        hint = "write control: provider; `--rehearse` of a file with a mesh does so"
        yield Problem(("network", "control"), message, hint)


def control_lan(view: View) -> Iterator[Problem]:
    """``lan`` without declared addresses."""
    if view.spec.network.control == "lan" and view.where(lambda c: c.containers):
        hint = "write control: provider; embedded nodes get their addresses from podman"
        message = "control is lan, and embedded nodes have no declared addresses"
        yield Problem(("network", "control"), message, hint)


_E, _W = Level.ERROR, Level.WARNING
RULES: Final = (
    Rule("mixed-providers", _E, "Embedded nodes and real machines in one cluster; they cannot "
         "reach each other.",
         (), mixed_providers, ("groups.provider",)),
    Rule("embedded-many", _W, "More than 64 embedded nodes on one machine.",
         (), too_many, ("groups.nodes", "groups.provider")),
    Rule("memory-small", _W, "Embedded nodes with less than 1024 MiB, or 1536 MiB where the "
         "database runs.",
         ("groups.memory_mib", "groups.provider"), memory_small,
         ("groups.nodes", "controller", "slurm.accounting")),
    Rule("mesh-embedded", _E, "control: tailscale with embedded nodes.",
         ("network.control",), tailnet, ("groups.provider",)),
    Rule("network-lan-embedded", _W, "control: lan with embedded nodes, which have no declared "
         "addresses.",
         ("network.control",), control_lan, ("groups.provider",)),
)  # fmt: skip
