"""``corral bench``: tables in, verdicts and exit statuses out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.prove.fabric.hardware import HARDWARE
from tests.unit.cli.conftest import Run

RECORDED = Path(__file__).parents[2] / "recorded/nccl"
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


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        (["--hardware", "dgx-9"], 2, "no hardware called 'dgx-9'"),
        (["--fabric", "wifi"], 2, "no fabric is called 'wifi'"),
        (["--nics", "8"], 2, "belong together"),
        (["--nics", "1", "--gbps", "100", "--reference", "200"], 2, "above the limit of 12.5"),
    ],
)
def test_usage(corral: Run, more: list[str], status: int, says: str) -> None:
    done = corral("bench", "read", str(MEGA), *more)
    assert done.exit_code == status
    assert says in done.stderr


def test_cut_and_missing_files(corral: Run, home: Path) -> None:
    (home / "cut.log").write_text(DGX1.read_text()[:900])
    done = corral("bench", "read", "cut.log")
    assert done.exit_code == 3
    assert "words where its header has 12" in done.stderr
    assert corral("bench", "read", "none.log").exit_code == 2


def test_hardware(corral: Run) -> None:
    listed = json.loads(corral("bench", "hardware", "--json").stdout)["hardware"]
    assert {one["name"] for one in listed} == set(HARDWARE)
