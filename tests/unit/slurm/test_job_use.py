"""What an ended job used, from sacct's lines and from recorded answers of slurmrestd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.slurm.job_use import JobUse, Shares, parse_use, shares, show_use, use_of
from corral.slurm.records import Job

RECORDED = Path(__file__).parents[2] / "recorded" / "rest" / "24.11"

# sacct(1), 24.11: sizes have a unit unless --noconvert is given; a job itself has no usage.
LINES = """\
28|01:02:03|
28.batch|00:03.391|cpu=00:00:03,energy=0,fs/disk=1012,mem=1496K,pages=0,vmem=1120K
28.extern|00:00:00|cpu=00:00:00,energy=0,fs/disk=1,mem=0,pages=0,vmem=0
28.0|01:01:59.5|cpu=01:01:59,energy=0,fs/disk=1,mem=3.50G,pages=0,vmem=4G
29.0|10:00:00|mem=9T
"""


def test_sacct_prints_each_step() -> None:
    assert parse_use(LINES, 28) == JobUse(3723.0, 3584.0)
    assert parse_use(LINES.replace("01:02:03", "00:00:00"), 28).cpu_s == pytest.approx(3722.891)
    assert parse_use("28|00:00:00|\n28.batch|00:00:00|\n", 28) == JobUse()
    assert parse_use("sacct: error: no\n28|what|mem=x\n", 28) == JobUse()
    assert parse_use("28|1-00:00:00|\n28.batch||mem=1048576\n", 28) == JobUse(86400.0, 1.0)
    assert show_use(28)[-1] == "--jobs=28"


def test_shares_are_used_of_given_and_unknown_is_not_zero() -> None:
    job = Job(7, "7", cpus=4, memory=8192, gpus=2, elapsed=100)
    assert shares(job, 100.0, JobUse(380.0, 2048.0), 90.0) == Shares(0.95, 0.25, 0.45)
    assert shares(job, 100.0, JobUse(), None) == Shares()
    assert shares(job, 100.0, None, 900.0) == Shares(gpu=1.0)
    assert shares(job, 0.0, JobUse(3.0, 1.0), 3.0) == Shares(memory=1 / 8192)
    assert shares(Job(7, "7"), 9.0, JobUse(3.0, 1.0), 3.0) == Shares()
    asked = Job(7, "7", cpus=1, gpus=None, gpus_exact=False)
    assert shares(asked, 9.0, JobUse(9.0), 3.0) == Shares(1.0)


@pytest.mark.parametrize("version", [40, 41, 42])
def test_slurmrestd_reports_each_step(version: int) -> None:
    body = json.loads((RECORDED / f"v0.0.{version}" / "past-job.json").read_text())["body"]
    job = body["jobs"][0]
    use = use_of(job)
    assert use.cpu_s == pytest.approx(
        sum(step["time"]["total"]["microseconds"] / 1e6 for step in job["steps"])
    )
    assert 0 < (use.cpu_s or 0.0) < 1
    assert use.memory == pytest.approx(1531904 / (1 << 20))


@pytest.mark.parametrize("raw", [{}, {"steps": None}, {"steps": [{"tres": []}], "time": 3}])
def test_what_is_missing_is_unknown(raw: dict[str, Any]) -> None:
    assert use_of(raw) == JobUse()
