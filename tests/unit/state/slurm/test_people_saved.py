"""The shell that has slurmctld write users and accounts, with a scontrol that notes its words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.agents import program

SINGLE = "SlurmctldHost=node0(10.0.0.1)\n"
PAIR = SINGLE + "SlurmctldHost=node1(10.0.0.2)\n"
CREATED = "create PartitionName=corral-writes-state State=DOWN Hidden=YES"
DELETED = "delete PartitionName=corral-writes-state"


def saved(root: Path, hosts: str, scontrol: str) -> subprocess.CompletedProcess[str]:
    (root / "slurm.conf").write_text(f"# Written by Corral\n{hosts}StateSaveLocation={root}\n")
    (root / "scontrol").write_text(f'#!/bin/sh\necho "$*" >>{root}/called\n{scontrol}\n')
    (root / "scontrol").chmod(0o755)
    text = program("state/people-saved.sh").replace("/etc/slurm", str(root)).replace("+ 60", "+ 1")
    path = f"{root}:{os.environ['PATH']}"
    argv = ["sh", "-c", f"{text}\npeople_saved"]
    return subprocess.run(argv, check=False, capture_output=True, text=True, env={"PATH": path})


def called(root: Path) -> list[str]:
    file = root / "called"
    return file.read_text().splitlines() if file.exists() else []


def test_a_cluster_with_one_controller_is_left_alone(tmp_path: Path) -> None:
    assert saved(tmp_path, SINGLE, "exit 1").returncode == 0
    assert called(tmp_path) == []


@pytest.mark.parametrize("left", ["", "exit 1;"])
def test_the_state_is_written_also_where_a_killed_run_left_the_partition(
    tmp_path: Path, left: str
) -> None:
    writes = f"case $1 in create) {left} ;; delete) echo users >{tmp_path}/assoc_mgr_state ;; esac"
    done = saved(tmp_path, PAIR, writes)
    assert done.returncode == 0, done.stderr
    assert called(tmp_path) == [CREATED, DELETED]


def test_state_that_is_not_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "assoc_mgr_state").write_text("older")
    done = saved(tmp_path, PAIR, "")
    assert done.returncode == 1
    assert f"did not write {tmp_path}/assoc_mgr_state" in done.stderr
    assert saved(tmp_path, PAIR, 'echo refused >&2; [ "$1" = create ]').stderr.endswith("refused\n")
