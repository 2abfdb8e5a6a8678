"""What machines are asked, by the real shell: nothing that cannot be answered is waited for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.doctor.look import Ask, script, sections


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("Slurmctld(primary) at node0 is UP", ["ping", "nodes"]),
        ("Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP", ["ping", "nodes"]),
        ("Slurmctld(primary) at node0 is DOWN", ["ping"]),
        ("scontrol: fatal: Could not establish a configuration source", ["ping"]),
    ],
)
def test_a_dead_slurmctld_is_asked_once(tmp_path: Path, answer: str, asked: list[str]) -> None:
    """Each command asked for 15 s more: a look at a cluster without slurmctld took 48 s."""
    fake = '#!/bin/sh\nd=${0%/*}; echo "$1 $2" >>$d/asked; [ $1 = show ] || cat $d/answer\n'
    for name in ("scontrol", "squeue", "sacctmgr"):
        (tmp_path / name).write_text(fake)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "answer").write_text(answer)
    text = str(script(Ask(("node0",), (), controller=True)))
    text = "set -u; " + text[text.index("echo @@ping") : text.index("echo @@slurmconf")]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", text], env=env, capture_output=True, check=True, text=True)
    told = sections(done.stdout)
    assert told["ping"] == answer
    lines = (tmp_path / "asked").read_text().split("\n")
    assert [one for one in ("ping", "nodes") if any(one in line for line in lines)] == asked
    assert ("nodes" in told) == ("batch" in told) == ("nodes" in asked)
