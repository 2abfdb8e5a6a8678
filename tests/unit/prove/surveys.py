"""Surveys to judge, made by hand."""

from __future__ import annotations

from dataclasses import replace

from corral.inspect.question import MachineState
from corral.prove.model import Evidence
from corral.prove.survey import Survey
from corral.slurm.records import Node
from corral.slurm.states.nodes import NodeState

SHOWN = Evidence("node0", "command", "output")


def slurm_node(name: str, *, state: str = "IDLE", gpus: int = 2, **changes: object) -> Node:
    node = Node(
        name,
        NodeState.parse(state),
        address="10.1.1.1",
        version="24.11.5",
        partitions=("main",),
        gres=f"gpu:{gpus}" if gpus else "",
        cpus=2,
        memory=2800,
    )
    return replace(node, **changes)


def survey_of(**changes: object) -> Survey:
    names = ("node0", "node1")
    nodes = {name: MachineState(name, {"clock": "100.0"}, 99.9, 100.1) for name in names}
    known = {name: slurm_node(name) for name in names}
    return replace(Survey(nodes, names, known, "text", "node0"), **changes)
