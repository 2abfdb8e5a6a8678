"""The readers of text and of JSON give the same record for the same node."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from corral.doctor.pending import room
from corral.slurm.records import Node
from corral.slurm.rest import read
from corral.slurm.states.nodes import NodeState
from corral.slurm.text import parse_nodes
from corral.web.exposition import families, text_of
from corral.web.snapshot import Snapshot

RECORDED = Path(__file__).parents[2] / "recorded" / "rest"


def as_scontrol(node: Node) -> str:
    """The line that ``scontrol show node --details --oneliner`` prints (src/api/node_info.c)."""
    free = "N/A" if node.memory_free is None else node.memory_free
    load = "N/A" if node.load is None else f"{node.load:.2f}"
    fields = {
        "NodeName": node.name, "CoresPerSocket": f"{node.cores} ", "CPUAlloc": node.cpus_used,
        "CPUTot": node.cpus, "CPULoad": load,
        "AvailableFeatures": ",".join(node.features) or "(null)",
        "ActiveFeatures": ",".join(node.active_features) or "(null)",
        "Gres": node.gres or "(null)", "GresUsed": node.gres_used, "NodeAddr": node.address,
        "Version": node.version or "(null)", "OS": "Linux 6.1 State=FAKE ",
        "RealMemory": node.memory, "AllocMem": node.memory_used, "FreeMem": free,
        "State": node.state, "ThreadsPerCore": node.threads,
        "Partitions": f"{','.join(node.partitions)} ", "BootTime": node.boot_at or "None",
        "CfgTRES": node.tres, "AllocTRES": node.tres_used, "CurrentWatts": node.watts or 0,
    }  # fmt: skip
    reason = f" Reason={node.reason} [{node.reason_by}@{node.reason_at}]" if node.reason else ""
    return " ".join(f"{key}={value}" for key, value in fields.items()) + reason


@pytest.mark.parametrize("folder", sorted(RECORDED.glob("*/v0.0.*")), ids=lambda p: p.name)
def test_both_readers_give_one_record(folder: Path) -> None:
    body = json.loads((folder / "nodes.json").read_text())["body"]
    nodes = read.nodes_of(body, int(folder.name.rpartition(".")[2]))
    assert len(nodes) == 4
    for node in nodes:
        (text,) = parse_nodes(as_scontrol(node))
        # slurmrestd gives who and when even where there is no reason
        told = node if node.reason else replace(node, reason_by="", reason_at=None)
        assert text == told


@pytest.mark.parametrize(
    ("gres", "gres_used", "tres", "tres_used", "used"),
    [
        ("gpu:h200:8", "gpu:h200:3(IDX:0-2)", "cpu=8", "", 3),
        ("gpu:h200:8", "gpu:h200:0(IDX:N/A)", "cpu=8", "", 0),
        ("gpu:h200:8", "", "cpu=8", "cpu=4", None),  # scontrol without --details
        ("gpu:h200:8", "", "cpu=8,gres/gpu=8", "cpu=4,gres/gpu=2", 2),
        ("gpu:h200:8", "", "cpu=8,gres/gpu=8", "", 0),
        ("", "", "cpu=8", "cpu=4", 0),
    ],
)
def test_gpus_in_use_are_unknown_where_no_field_has_them(
    gres: str, gres_used: str, tres: str, tres_used: str, used: int | None
) -> None:
    node = Node(
        "n1", NodeState.parse("IDLE"), gres=gres, gres_used=gres_used, tres=tres,
        tres_used=tres_used, cpus=8, partitions=("main",),
    )  # fmt: skip
    assert node.gpus_used == used
    counts = Snapshot().with_nodes([node]).counts()
    assert counts["gpus_used_exact"] == (used is not None)
    text = text_of(families([node], (), ()))
    assert ("corral_node_gpus_used" in text) == (used is not None)
    expected = None if used is None else node.gpus - used
    assert room(node).gpus_free == expected
