"""v0.0.39 (Slurm 23.02), which no Debian release serves: v0.0.40's recorded answers, brought down.

The differences are those between the two releases' parsers (SchedMD's source,
``src/plugins/data_parser/v0.0.39/parsers.c`` and ``v0.0.40``, before 24.11 dropped the older).
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from corral.slurm.rest import read
from corral.web.exposition import families

RECORDED = Path(__file__).parents[3] / "recorded" / "rest" / "24.11" / "v0.0.40"
# TIMESTAMP_NO_VAL was UINT64: the number alone.
TIMES = {
    "boot_time", "reason_changed_at", "slurmd_start_time", "last_busy", "submit_time",
    "start_time", "end_time", "suspend_time", "last_update",
}  # fmt: skip


def newer(what: str) -> Any:
    return json.loads((RECORDED / f"{what}.json").read_text())["body"]


def older(what: str) -> Any:
    body = copy.deepcopy(newer(what))
    for record in body[what]:
        for key in TIMES & record.keys():
            record[key] = record[key]["number"] if isinstance(record[key], dict) else record[key]
        if what == "nodes":  # UINT32_NO_VAL then, UINT32 now
            record["cpu_load"] = {"set": True, "infinite": False, "number": record["cpu_load"]}
        if what == "jobs":
            (record["job_state"],) = record["job_state"]
            code = record["exit_code"]
            status = code["return_code"]["number"] << 8 | code["signal"]["id"]["number"]
            record["exit_code"] = {"set": True, "infinite": False, "number": status}
        if what == "partitions":  # state_up was skipped: the partition's state is not reported
            del record["partition"]
    return body


@pytest.mark.parametrize(("what", "reader"), [("nodes", read.nodes_of), ("jobs", read.jobs_of)])
def test_an_older_answer_reads_as_the_newer_one(what: str, reader: Any) -> None:
    assert older(what) != newer(what)
    assert reader(older(what), 39) == reader(newer(what), 40)


def test_how_a_job_ended() -> None:
    jobs = {job.id: job for job in read.jobs_of(older("jobs"), 39).records}
    assert (jobs[3].state, jobs[3].exit_status, jobs[3].exit_signal) == ("FAILED", 3, 0)
    body = older("jobs")
    body["jobs"][0]["exit_code"]["number"] = 9
    assert read.jobs_of(body, 39).records[0].exit_signal == 9


def test_a_partition_of_unknown_state_is_not_reported_down() -> None:
    partitions = read.partitions_of(older("partitions"), 39).records
    before = read.partitions_of(newer("partitions"), 40).records
    assert [p.name for p in partitions] == [p.name for p in before]
    assert [p.max_time for p in partitions] == [p.max_time for p in before]
    (up,) = (f for f in families((), (), partitions) if f.name == "corral_partition_up")
    assert not up.values
    (up,) = (f for f in families((), (), before) if f.name == "corral_partition_up")
    assert set(up.values.values()) == {1.0}
