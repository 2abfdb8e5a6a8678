"""One answer to "does this node take jobs": status, proof, doctor and page."""

from __future__ import annotations

import pytest

from corral.api.operations import overview
from corral.doctor.pending_reason import room
from corral.inspect.question import MachineState
from corral.prove.checks.smoke import judge_nodes
from corral.prove.model import Verdict
from corral.slurm.rest.read import node as from_json
from corral.slurm.states.nodes import NodeBase, NodeState, node_flags
from corral.slurm.text import parse_nodes, readable_nodes
from tests.unit.prove.surveys import survey_of

FLAGS = (*node_flags(), "HIBERNATING")  # a flag of a later Slurm
OPEN = {"BLOCKED", "CLOUD", "COMPLETING", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "PERFCTRS", "PLANNED",
        "REBOOT_CANCELED", "RES", "RESERVED", "RESUME", "UNDRAIN"}  # fmt: skip
STATES = [base.value for base in NodeBase] + [
    f"{base.value}+{flag}" for base in NodeBase for flag in FLAGS
]


def line(state: str) -> str:
    return (
        f"NodeName=node0 CPUTot=2 CPUAlloc=0 AvailableFeatures=(null) Gres=(null) "
        f"NodeAddr=10.1.1.1 RealMemory=2800 AllocMem=0 State={state} ThreadsPerCore=1 "
        "Partitions=main\n"
    )


@pytest.mark.parametrize("state", STATES)
def test_all_readers_agree(state: str) -> None:
    base, _, flag = state.partition("+")
    expected = base in ("IDLE", "MIXED", "ALLOCATED") and (not flag or flag in OPEN)
    (info,) = parse_nodes(line(state))
    seen = readable_nodes(line(state))
    verdict = judge_nodes(survey_of(slurm=seen, compute=("node0",))).verdict
    got = {
        "states": NodeState.parse(state).usable,
        "text": info.state.usable,
        "proof": seen["node0"].usable,
        "smoke.nodes": verdict is Verdict.PASS,
        "status": overview._node("node0", MachineState("node0"), "", info).usable,
        "doctor": room(info).usable,
        "page": from_json({"name": "node0", "state": state.split("+")}, 42).usable,
    }
    assert got == dict.fromkeys(got, expected)
