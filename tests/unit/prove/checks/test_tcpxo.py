"""A3 Mega: nodes and the table judged, from the seed's own run and broken ones."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

from corral.hosts.quote import call
from corral.prove.checks.tcpxo import (
    FAIL_BELOW,
    MACHINES,
    WARN_BELOW,
    healthy_speed,
    judge_nodes,
    judge_speed,
)
from corral.prove.fabric.benchmark_log import read
from corral.prove.fabric.hardware import known_hardware, reference
from corral.prove.fabric.model import Collective
from corral.prove.fabric.verdict import SEVERAL
from corral.prove.model import Evidence, Verdict
from corral.roles.machine.nccl_plugin import TCPXO

SOURCE = Path(__file__).parents[4] / "src/corral"
TABLE = (Path(__file__).parents[3] / "recorded/nccl/a3-mega-all-gather.txt").read_text()
HEAD = "n:1:1 [0] NCCL INFO"
RAILS = "".join(f"{HEAD} NET/FasTrak : {nic}\n" for nic in TCPXO.rails)
LOG = f"{HEAD} NET/FasTrak plugin initialized\n{RAILS}{HEAD} Using network FasTrak\n{TABLE}"
ENV = {**TCPXO.values, **TCPXO.demanded, "LD_LIBRARY_PATH": ":".join(TCPXO.libraries)}


def printed(node: str, env: dict[str, str] = ENV, mtu: int = 8244) -> str:
    rails = [f"@ rail {node} {nic} {mtu} up" for nic in TCPXO.rails]
    return "\n".join([*rails, *(f"@ env {node} {k}={v}" for k, v in env.items())]) + "\n"


@pytest.mark.parametrize(
    ("log", "verdict", "words"),
    [
        (LOG, Verdict.PASS, "188.3 GB/s at 8 GiB by FasTrak (8 NICs)"),
        (LOG.replace(RAILS, ""), Verdict.PASS, "its log names no NICs"),
        (LOG.replace(f"{HEAD} NET/FasTrak : enp142s0\n", ""), Verdict.FAIL, "7 of 8 NICs"),
        (LOG.replace("Using network FasTrak", "Using network Socket"), Verdict.FAIL,
         "NCCL used Socket instead of FasTrak"),
        (LOG.replace("42783  200.78  188.23", "51539  166.67  156.25").replace(
            "42777  200.81  188.26", "51539  166.67  156.25").replace("126.358", "123.451"),
         Verdict.WARN, "156.2 GB/s"),
        ("\n".join(LOG.splitlines()[:-4]) + "\n", Verdict.FAIL, "does not reach 8 GiB"),
    ],
)  # fmt: skip
def test_the_table(log: str, verdict: Verdict, words: str) -> None:
    result = judge_speed(read(log), log, Evidence("c", "srun", log))
    assert (result.verdict, words in result.summary) == (verdict, True), result.summary


def test_the_figure_is_that_of_the_table_of_hardware() -> None:
    """One figure for each kind; the check's limits are those of ``corral bench read``."""
    figures = {
        seen.busbw
        for machine in MACHINES.values()
        if (seen := reference(known_hardware()[machine.hardware], Collective.ALL_GATHER, 2))
    }
    assert figures == {healthy_speed()} == {188.0}
    assert (WARN_BELOW, FAIL_BELOW) == SEVERAL == (0.9, 0.7)


def test_no_check_has_a_healthy_figure_of_its_own() -> None:
    """A number of the table, rounded as it may be, is written in no module of the proof."""
    figures = {seen.busbw for kind in known_hardware().values() for seen in kind.seen}
    wholes = {round(figure) for figure in figures if figure >= 150}  # smaller: by chance
    assert 188 in wholes
    again = [
        f"{path.name}:{node.lineno}"
        for path in sorted((SOURCE / "prove").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and type(node.value) is float
        and round(node.value) in wholes
    ]
    assert again == []


def test_nodes_that_are_ready_and_those_that_are_not() -> None:
    assert judge_nodes(("a", "b"), printed("a") + printed("b"), "") == []
    why = "corral: no /var/lib/tcpxo/lib64/nccl-env-profile.sh on b: the TCPXO prolog did not run"
    assert judge_nodes(("a", "b"), printed("a"), why) == [why.removeprefix("corral: ")]
    assert judge_nodes(("a",), "", "") == ["a reported nothing"]
    small = judge_nodes(("a",), printed("a", mtu=1460), "")
    assert len(small) == 8
    assert small[0] == "a: enp6s0 has an MTU of 1460 instead of 8244"
    order = {**ENV, "NCCL_FASTRAK_IFNAME": ",".join(sorted(TCPXO.rails))}
    assert "in another order" in judge_nodes(("a",), printed("a", order), "")[0]


def test_what_a_node_reports_in_the_real_shell() -> None:
    script = str(call("prove/node.sh", "task_rails", "lo", "no such"))
    env = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "n1", "NCCL_A": "b = 'c'", "HOME": "/"}
    shown = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)
    assert re.fullmatch(
        r"@ rail n1 lo \d+ \w+\n@ rail n1 no such  \n@ env n1 NCCL_A=b = 'c'\n", shown.stdout
    )
    assert (shown.returncode, shown.stderr) == (0, "")
