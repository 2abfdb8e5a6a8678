"""Who leaves and who stays, from what slurmctld and the controller's list report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.spec.impacts import Impact
from corral.state.base import Context, Seen
from corral.state.slurm.members import (
    Leaving,
    Member,
    NoController,
    Roster,
    parse_members,
    quiet,
)

HERE = Context("node0")


def leaving(seen: str) -> tuple[str, Impact] | None:
    resource = Leaving(("node0", "node1"), ("main",))
    change = resource.diff(Seen(0, seen), HERE)
    return (change.summary, change.impact) if change else None


def test_nothing_leaves() -> None:
    assert leaving("") is None
    assert leaving("node node0\nnode node1\npartition main") is None


def test_nodes_and_partitions_that_are_declared_no_longer() -> None:
    assert leaving("node node0\nnode node1\nnode node2 drained\nnode node3\npartition old") == (
        "drain node[2-3], which leaves: its jobs end first; "
        "close partition old, which leaves: its jobs end first",
        Impact.DRAIN,
    )


def test_a_node_that_stays_after_all_is_resumed() -> None:
    assert leaving("node node0\nnode node1 drained") == (
        "resume node1, which stays",
        Impact.NONE,
    )


def test_the_list_grows_and_never_shrinks_by_itself() -> None:
    roster = Roster((Member("n0", "10.0.0.1", 22, "root"),))
    change = roster.diff(Seen(0, "n1 10.0.0.2 22 admin\nnonsense"), HERE)
    assert change is not None
    assert change.after.splitlines() == ["n1 10.0.0.2 22 admin", "n0 10.0.0.1 22 root"]
    assert roster.diff(Seen(0, change.after), HERE) is None
    assert [m.node for m in parse_members(change.after)] == ["n1", "n0"]


def test_the_controller_is_not_moved() -> None:
    assert NoController("node0").diff(Seen(0, ""), Context("node1")) is None
    with pytest.raises(CorralError, match="is the controller") as caught:
        NoController("node1").diff(Seen(0, "here"), HERE)
    assert caught.value.node == "node0"


def test_a_partition_that_was_closed_and_stays_is_opened() -> None:
    assert leaving("partition main\nclosed main\nclosed old") == (
        "open partition main, which stays",
        Impact.NONE,
    )


def test_what_a_person_drained_is_not_drained_again(tmp_path: Path) -> None:
    """Also behind REBOOT_ISSUED, of which sinfo prints ``reboot^``."""
    nodes = {
        "a": "IDLE", "b": "IDLE+DRAIN", "c": "MIXED+DRAIN+REBOOT_ISSUED", "d": "IDLE+POWER_DRAIN",
    }  # fmt: skip
    lines = "\n".join(
        f"NodeName={name} OS=Linux State=IDLE+DRAIN ThreadsPerCore=1 x  RealMemory=1 AllocMem=0 "
        f"State={state} ThreadsPerCore=1 TmpDisk=0 Comment=State=IDLE+DRAIN "
        for name, state in nodes.items()
    )
    (tmp_path / "nodes").write_text(lines)
    tools = {
        "scontrol": f"""case $1 in ping) echo 'Slurmctld(primary) is UP';;
            --oneliner) cat {tmp_path}/nodes;; update) echo $2 $3 >> {tmp_path}/log;; esac""",
        "squeue": ":",
    }
    for name, text in tools.items():
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["/bin/sh", "-c", quiet(0)], env=path, check=True)
    log = (tmp_path / "log").read_text().splitlines()
    assert log == ["NodeName=a State=DRAIN", "NodeName=d State=DRAIN"]
