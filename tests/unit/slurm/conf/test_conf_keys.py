"""What a change of a file does to a live cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.slurm.conf.conf_file import read
from corral.slurm.conf.impact import impact_of as impact_of_files
from corral.slurm.conf.model import PartitionConf
from corral.spec.impacts import ImpactWord
from tests.unit.slurm.clusters import LAPTOP, SLOTS, render

SLURM = render(LAPTOP)["slurm.conf"]


def impact_of(file: str, before: str, after: str) -> tuple[ImpactWord, tuple[str, ...]]:
    """Of two texts: what is on a machine is one."""
    return impact_of_files(read(file, before) if before else None, read(file, after))


@pytest.mark.parametrize(
    ("old", "new", "impact", "keys"),
    [
        ("SlurmdTimeout=120", "SlurmdTimeout=300", "reload", ("SlurmdTimeout",)),
        ("SlurmdTimeout=120", "slurmdtimeout = 120 # same", "none", ()),
        ("SlurmdTimeout=120\n", "", "reload", ("SlurmdTimeout",)),
        ("AuthType=auth/slurm", "AuthType=auth/munge", "drain", ("AuthType",)),
        ("ClusterName=laptop", "ClusterName=other", "recreate", ("ClusterName",)),
        ("RealMemory=7680", "RealMemory=7000", "restart", ("RealMemory",)),
        ("Feature=compute", "Feature=other", "reload", ("Feature",)),
        ("MaxTime=INFINITE", "MaxTime=60", "reload", ("MaxTime",)),
        ("NodeAddr=10.88.0.[10-12]", "NodeAddr=10.88.0.[10-11,13]", "restart", ("NodeAddr",)),
        ("ReturnToService=2", "ReturnToService=2\nMinJobAge=9", "reload", ("MinJobAge",)),
        ("ReturnToService=2", "ReturnToService=2\nMaxJobCount=9", "restart", ("MaxJobCount",)),
        ("ReturnToService=2", "ReturnToService=2\nPrEpPlugins=a", "restart", ("PrEpPlugins",)),
        ("ReturnToService=2", "ReturnToService=2\nSwitchType=a", "drain", ("SwitchType",)),
        ("ReturnToService=2", "ReturnToService=2\nNoSuchKey=9", "restart", ("nosuchkey",)),
        ("SelectType=select/cons_tres", "SelectType=select/linear", "drain", ("SelectType",)),
    ],
)
def test_impact(old: str, new: str, impact: str, keys: tuple[str, ...]) -> None:
    assert old in SLURM
    assert impact_of("slurm.conf", SLURM, SLURM.replace(old, new)) == (impact, keys)


def test_a_name_that_was_lost_and_comes_back_is_no_other_name() -> None:
    lost = SLURM.replace("ClusterName=laptop\n", "")
    assert lost != SLURM
    assert impact_of("slurm.conf", lost, SLURM) == ("restart", ("ClusterName",))
    assert impact_of("slurm.conf", SLURM, lost)[0] == "recreate"


def test_nothing_changes() -> None:
    for file, text in render(LAPTOP).items():
        assert impact_of(file, text, text) == ("none", ())
        assert impact_of(file, text, text.replace("#", "##")) == ("none", ())


def test_another_folding_of_the_same_nodes_is_no_change() -> None:
    start = SLURM.index("NodeName=")
    line = SLURM[start : SLURM.index("\n", start)]
    first = line.replace("node[0-2]", "node0").replace("[10-12]", "10")
    others = line.replace("node[0-2]", "node[1-2]").replace("[10-12]", "[11-12]")
    assert impact_of("slurm.conf", SLURM, SLURM.replace(line, f"{others}\n{first}"))[0] == "none"


def test_a_node_more_and_a_node_less() -> None:
    four = replace(
        LAPTOP,
        nodes=(*LAPTOP.nodes, replace(SLOTS, name="node3", address="10.88.0.13")),
        partitions=(PartitionConf("main", ("node0", "node1", "node2", "node3"), True, "INFINITE"),),
    )
    more = render(four)["slurm.conf"]
    word, keys = impact_of("slurm.conf", SLURM, more)
    assert word == "restart"
    assert {"NodeName", "NodeAddr", "Nodes"} <= set(keys)
    assert impact_of("slurm.conf", more, SLURM)[0] == "drain"


def test_a_file_that_was_not_there_disturbs_nobody() -> None:
    word, keys = impact_of("slurmdbd.conf", "", render(LAPTOP)["slurmdbd.conf"])
    assert word == "none"
    assert "StorageType" in keys


def test_other_files() -> None:
    files = render(LAPTOP)
    cgroup = files["cgroup.conf"]
    changed = cgroup.replace("ConstrainDevices=yes", "ConstrainDevices=no")
    assert impact_of("cgroup.conf", cgroup, changed) == ("restart", ("ConstrainDevices",))
    gres = files["gres.conf"]
    assert impact_of("gres.conf", gres, gres.replace("[0-1]", "[0-3]")) == ("restart", ("File",))
    two = gres + "NodeName=node0 Name=gpu Type=other File=/dev/nvidia5\n"
    assert impact_of("gres.conf", gres, two) == ("restart", ("NodeName", "Name", "Type", "File"))
    assert impact_of("gres.conf", two, two.replace("nvidia5", "nvidia6"))[1] == ("File",)
    dbd = files["slurmdbd.conf"]
    assert impact_of("slurmdbd.conf", dbd, dbd.replace("slurm_acct_db", "x"))[0] == "drain"
