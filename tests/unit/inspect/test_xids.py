"""One table of Xids: health check, bench gpu and the doctor judge each number by it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from corral.doctor.logs.diagnosis import read
from corral.inspect.xids import Xid, xids, xids_by_number
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.gpu import Node, judge_gpus
from corral.roles.slurm import health

MESSAGES = (
    "pid=1204, Channel 00000010",
    "NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x1)",
    "NETIR_LINK_EVT Nonfatal XC0 i0 Link 01 (0x1)",
    "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    "NVLink: SW Defined Error",
)
UNKNOWN = 999


def line(number: int, message: str) -> str:
    return f"[   12.5] NVRM: Xid (PCI:0000:3b:00): {number}, {message}"


def takes_out(number: int, message: str) -> bool:
    xid = xids_by_number().get(number)
    return xid is not None and xid.takes_out(message)


def test_each_number_is_in_one_row() -> None:
    assert len(xids_by_number()) == sum(len(row.numbers) for row in xids())
    assert not [
        row for row in xids() if (row.action == "none") is (row.do in ("drain", "fatal", "derived"))
    ]


def test_the_newest_numbers_are_all_there() -> None:
    """NVLink 5's and later ones: to the last name of nverror.h, kernel modules 595.45.04."""
    assert set(range(143, 177)) <= xids_by_number().keys()
    assert {xids_by_number()[number].do for number in (152, 153)} == {"job"}


@pytest.mark.parametrize("first", range(1, 200, 50))
def test_the_doctor_names_its_failure(first: int) -> None:
    """154 alone asks for what its message has; all others mean one thing."""
    for number in range(first, first + 50):
        row = xids_by_number().get(number, Xid(numbers=(), do="report"))
        messages = MESSAGES[3:4] if row.do == "derived" else (*MESSAGES[:3], MESSAGES[5])
        shown = read("\n".join(line(number, message) for message in messages))
        expected = {row.failure} if row.failure else set[str]()
        assert (number, {f.failure.id for f in shown}) == (number, expected)


@pytest.mark.parametrize("message", MESSAGES)
def test_bench_gpu_fails_for_those_that_take_a_node_out(message: str) -> None:
    for number in (*xids_by_number(), UNKNOWN):
        event = {"bus": "3b:00", "xid": number, "text": message}
        (remark,) = judge_gpus([Node("n0", "", (), (), (event,))])
        assert (remark.outcome is Outcome.FAIL) is takes_out(number, message)
        assert remark.failure == (row.failure if (row := xids_by_number().get(number)) else "")


def health_check(folder: Path) -> str:
    """The program's check of the kernel's log alone, which prints its verdict and words."""
    text = health.program()
    table = re.search(r"^xids='.*'$", text, re.MULTILINE)
    check = re.search(r"^check_xid\(\) \{\n.*?^\}$", text, re.MULTILINE | re.DOTALL)
    assert table
    assert check
    names = 'status() { echo 0; }\nresult() { echo "$@"; }\nverdict_of() { cat "$work/xid"; }\n'
    values = f"gpus=1 run={folder} work={folder}\n"
    return f"{names}{values}{table[0]}\n{check[0]}\n"


@pytest.mark.parametrize("number", [*{row.do: row.numbers[0] for row in xids()}.values(), UNKNOWN])
def test_the_health_check_fails_for_those_that_take_a_node_out(tmp_path: Path, number: int) -> None:
    check = health_check(tmp_path)
    for message in MESSAGES:
        (tmp_path / "kernel").write_text(f"{line(number, message)}\n")
        ended = subprocess.run(
            ["/bin/sh", "-c", f"{check}check_xid"], capture_output=True, text=True, check=True
        )
        row = xids_by_number().get(number)
        quiet = "ok" if row and row.do != "report" else "warn"
        assert ended.stdout.split()[0] == ("fail" if takes_out(number, message) else quiet)


def test_the_guide_has_the_same_numbers(repo: Path) -> None:
    text = (repo / "docs/guide/health.md").read_text()
    (taken,) = re.findall(
        r"Xids follow NVIDIA's catalogue: (.*?) take the node out", text, re.DOTALL
    )
    numbers = {int(number) for number in re.findall(r"\d+", taken)}
    assert numbers == {n for row in xids() if row.do == "drain" for n in row.numbers}
    fatal = [n for row in xids() if row.do == "fatal" for n in row.numbers]
    assert f"{min(fatal)} to {max(fatal)} when the line contains *Fatal*" in text
