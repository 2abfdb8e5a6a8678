"""``corral bench``: tables in, verdicts and exit statuses out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.prove.fabric.hardware import known_hardware
from tests.unit.cli.conftest import Run

RECORDED = Path(__file__).parents[3] / "recorded/nccl"
DGX1 = RECORDED / "dgx1-all-reduce.txt"
MEGA = RECORDED / "a3-mega-all-gather.txt"


def test_a_good_table(corral: Run) -> None:
    done = corral("bench", "read", str(DGX1), "--hardware", "dgx1")
    assert done.exit_code == 0, done.output
    assert "all_reduce, 16 ranks" in done.stdout
    assert "512 MiB  18620.0       28.83       54.06" in done.stdout
    assert "pass: 54.06 GB/s at 512 MiB; limit 93.75 GB/s; reference: DeepOps" in done.stdout


def test_a_slow_one(corral: Run) -> None:
    done = corral("bench", "read", str(MEGA), "--reference", "300", "--json")
    assert done.exit_code == 1
    (table,) = json.loads(done.stdout)["tables"]
    assert (table["outcome"], table["busbw_gb_s"], table["ranks"]) == ("fail", 188.26, 16)
    assert len(table["rows"]) == 11


def test_nothing_to_compare_with(corral: Run) -> None:
    done = corral("bench", "read", str(MEGA))
    assert done.exit_code == 0
    assert "unknown: 188.3 GB/s at 8 GiB" in done.stdout


def test_standard_input(corral: Run) -> None:
    done = corral("bench", "read", "-", "--hardware", "a3-mega", stdin=MEGA.read_text())
    assert done.exit_code == 0
    assert "pass" in done.stdout


def test_a_fall_back_to_sockets_fails_a_fast_table(corral: Run) -> None:
    log = "x:1:1 [0] NCCL INFO Using network Socket\n" + MEGA.read_text()
    done = corral("bench", "read", "-", "--hardware", "a3-mega", "--fabric", "tcpxo", stdin=log)
    assert done.exit_code == 1
    assert "silent fall-back to TCP sockets" in done.stdout


def test_known_hardware_knows_its_fabric(corral: Run) -> None:
    log = "x:1:1 [0] NCCL INFO Using network {}\n" + MEGA.read_text()
    args = ("bench", "read", "-", "--hardware", "a3-mega")
    done = corral(*args, stdin=log.format("Socket"))
    assert done.exit_code == 1
    assert "NCCL used Socket where the fabric is tcpxo" in done.stdout
    assert corral(*args, stdin=log.format("FasTrak")).exit_code == 0
    # Within one node a network is named and not used.
    assert "fall-back" not in corral(*args, "--nodes", "1", stdin=log.format("Socket")).stdout


def test_nodes_that_a_log_does_not_list(corral: Run) -> None:
    """64 ranks are eight nodes of eight: a tree's limit there is 225 GB/s, and not 375."""
    rows = MEGA.read_text()
    done = corral("bench", "read", "-", "--hardware", "a3-mega", stdin=rows)
    assert "taken for 2 nodes (16 ranks, 8 GPUs a node): --nodes overrides it" in done.stdout
    assert "--nodes overrides" not in corral("bench", "read", str(MEGA), "--nodes", "2").stdout
    reduce = """
#       size         count      type   redop    root     time   algbw   busbw #wrong
  8589934592    2147483648     float     sum      -1  73728.0  116.51  229.38      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 229.38
"""
    done = corral("bench", "read", "-", "--hardware", "a3-mega", "--reference", "188", stdin=reduce)
    assert "64 ranks" in done.stdout
    assert "limit 225 GB/s" in done.stdout


@pytest.mark.parametrize(
    ("more", "status", "reason"),
    [
        (["--hardware", "dgx-9"], 2, "no hardware called 'dgx-9'"),
        (["--fabric", "wifi"], 2, "no fabric is called 'wifi'"),
        (["--nics", "8"], 2, "belong together"),
        (["--nics", "1", "--gbps", "100", "--reference", "200"], 2, "above the limit of 12.5"),
    ],
)
def test_usage(corral: Run, more: list[str], status: int, reason: str) -> None:
    done = corral("bench", "read", str(MEGA), *more)
    assert done.exit_code == status
    assert reason in done.stderr


def test_cut_and_missing_files(corral: Run, home: Path) -> None:
    (home / "cut.log").write_text(DGX1.read_text()[:900])
    done = corral("bench", "read", "cut.log")
    assert done.exit_code == 3
    assert "words where its header has 12" in done.stderr
    assert corral("bench", "read", "none.log").exit_code == 2


def test_hardware(corral: Run) -> None:
    listed = json.loads(corral("bench", "hardware", "--json").stdout)["hardware"]
    assert {row["name"] for row in listed} == set(known_hardware())
    assert all(isinstance(row["busbw_gb_s"], float) for row in listed)
