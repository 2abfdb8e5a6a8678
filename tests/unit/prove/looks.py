"""Surveys to judge, made by hand."""

from __future__ import annotations

from dataclasses import replace

from corral.prove.model import Evidence
from corral.prove.survey import NodeSeen, SlurmNode, Survey

SHOWN = Evidence("node0", "command", "output")


def slurm_node(name: str, **changes: object) -> SlurmNode:
    node = SlurmNode(name, "IDLE", "", "10.1.1.1", "24.11.5", ("main",), 2, 2, 0, 1, 2800)
    return replace(node, **changes)


def look(**changes: object) -> Survey:
    names = ("node0", "node1")
    nodes = {name: NodeSeen(name, {"clock": "100.0"}, 99.9, 100.1) for name in names}
    known = {name: slurm_node(name) for name in names}
    return replace(Survey(nodes, names, known, "text", "node0"), **changes)
