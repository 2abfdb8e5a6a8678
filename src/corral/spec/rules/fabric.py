"""Rules about switches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.errors import CorralError
from corral.spec.findings import Level
from corral.spec.slurm.hostlist import NODES_AT_MOST, expand
from corral.spec.view import Problem, Rule, View, repeated, some

AT: Final = ("network", "topology", "switches")


def switches(view: View) -> Iterator[Problem]:
    """Switches that hang on none, or on several."""
    topology = view.spec.network.topology
    if topology is None:
        return
    names = [s.name for s in topology.switches]
    for name in repeated(names):
        yield Problem(AT, f"two switches are called {name}", "name them apart")
    below = [child for s in topology.switches for child in s.switches]
    known, children = set(names), set(below)
    switches_known = f"there are: {some(names)}"
    for i, switch in enumerate(topology.switches):
        if bool(switch.nodes) == bool(switch.switches):
            message = f"{switch.name} has " + ("both" if switch.nodes else "neither") + " of them"
            yield Problem((*AT, i), message, "nodes or switches, one of the two")
        for child in switch.switches:
            if child not in known or child == switch.name:
                yield Problem((*AT, i, "switches"), f"no switch is called {child}", switches_known)
    for child in repeated(below):
        yield Problem(AT, f"{child} is below two switches", "leave it below one")
    roots = [name for name in names if name not in children]
    if topology.plugin == "tree" and len(roots) > 1:
        hint = "a switch above them; without one, no job can use nodes of both"
        yield Problem(AT, f"{some(roots)} have no switch above them", hint)


def nodes(view: View) -> Iterator[Problem]:
    """Each compute node on one switch."""
    topology = view.spec.network.topology
    if topology is None or not view.complete:
        return
    held: list[str] = []
    for i, switch in enumerate(topology.switches):
        try:
            members = expand(switch.nodes, strict=True) if switch.nodes else []
            if len(held) + len(members) > NODES_AT_MOST:
                yield Problem(
                    AT, f"more than {NODES_AT_MOST} nodes on all switches", "leave each node on one"
                )
                return
        except CorralError as error:
            yield Problem((*AT, i, "nodes"), error.message, error.hint)
            return
        unknown = [n for n in members if n not in view.names]
        if unknown:
            hint = "its nodes are those of the groups"
            yield Problem((*AT, i, "nodes"), f"no node is called {some(unknown)}", hint)
        held += members
    for name in repeated(held):
        yield Problem(AT, f"{name} is on two switches", "leave it on one")
    used = {group for part in view.spec.partitions for group in part.groups}
    placed = set(held)
    missing = [
        n for n, g in view.names.items() if n not in placed and (not used or g.group.name in used)
    ]
    if missing:
        hint = "Slurm gives them to no job of several nodes"
        yield Problem(AT, f"{some(missing)} are on no switch", hint)


def rdma(view: View) -> Iterator[Problem]:
    """Fields of one kind of fabric used with another."""
    data = view.spec.network.data
    if data is None:
        return
    if data.pkey and data.fabric != "infiniband":
        yield Problem(
            ("network", "data", "pkey"),
            f"{data.fabric} has no partition keys",
            "fabric: infiniband, or leave it out",
        )
    if data.gid_index is not None and data.fabric != "roce":
        yield Problem(
            ("network", "data", "gid_index"),
            f"{data.fabric} needs no GID index",
            "fabric: roce, or leave it out",
        )


_READS: Final = ("network.topology",)

RULES: Final = (
    Rule("data-rdma", Level.ERROR, "A PKey without InfiniBand, or a GID index without RoCE.",
         ("network.data.pkey", "network.data.gid_index", "network.data.fabric"), rdma),
    Rule("topology-switches", Level.ERROR, "Switches that are not a tree.", _READS, switches),
    Rule("topology-nodes", Level.ERROR, "Nodes on two switches, on none, or unknown ones.",
         _READS, nodes, ("groups.nodes", "partitions.groups")),
)  # fmt: skip
