"""Rules about a cluster of the machine that Corral runs on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.spec.findings import Level
from corral.spec.view import Problem, Rule, View


def one_node(view: View) -> Iterator[Problem]:
    """More nodes than the one machine."""
    local = view.where(lambda c: c.here)
    nodes = sum(len(group.names) for group in view.where(lambda _: True))
    if local and nodes != 1:
        message = f"provider local is one machine, and the file has {nodes} nodes"
        hint = "for several machines write provider: ssh with their addresses"
        yield Problem(local[0].at("nodes"), message, hint)


def control(view: View) -> Iterator[Problem]:
    """A network between nodes, of which there is one."""
    if view.spec.network.control == "tailscale" and view.where(lambda c: c.here):
        message = "a cluster of one machine has no other node to reach by a tailnet"
        yield Problem(("network", "control"), message, "leave control out")


RULES: Final = (
    Rule("local-one", Level.ERROR, "Provider local with more than one node: it is the machine that "
         "Corral runs on.",
         ("groups.nodes", "groups.provider"), one_node),
    Rule("mesh-local", Level.ERROR, "control: tailscale with provider local.",
         ("network.control",), control, ("groups.provider",)),
)  # fmt: skip
