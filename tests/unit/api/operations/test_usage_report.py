"""What became of a month's hours: each run, clipped to the month, in the right column."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from corral.api.operations.usage_page import gpuless_note, usage_page, usage_tables
from corral.api.operations.usage_report import (
    Month,
    Usage,
    UsageReport,
    add_run,
    down_nodes,
    hours_of,
    lost_by_cause,
    waits,
)
from corral.slurm.records import JobRun, Outage
from corral.slurm.text import readable_runs, readable_sizes

HOUR = 3600
MONTH = Month("2026-11", 100 * HOUR, 200 * HOUR)
RUN = JobRun("7", "lab", "COMPLETED", 99 * HOUR, 110 * HOUR, 112 * HOUR, "cpu=8,gres/gpu=4", 8)


def share(*runs: JobRun, unit: str = "GPU") -> Usage:
    total = Usage()
    for run in runs:
        add_run(run, MONTH, unit, (total,))
    return total


def hours(total: Usage) -> dict[str, float]:
    return {kind: value for kind, value in total.hours.items() if value}


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("COMPLETED", "completed"),
        ("FAILED", "failed"),
        ("NODE_FAIL", "failed"),
        ("OUT_OF_MEMORY", "failed"),
        ("BOOT_FAIL", "failed"),
        ("CANCELLED", "stopped"),
        ("TIMEOUT", "stopped"),
        ("PREEMPTED", "requeued"),
        ("REQUEUED", "requeued"),
    ],
)
def test_what_became_of_a_run(state: str, kind: str) -> None:
    """Four GPUs for two hours; it waited eleven hours, ten of them in the month."""
    total = share(replace(RUN, state=state))
    assert hours(total) == {kind: 8.0}
    assert total.runs == {kind: 1}
    assert total.waited == 4 * 10
    assert total.waits == [11 * HOUR]


def test_only_what_is_in_the_month_counts() -> None:
    before = replace(RUN, start=90 * HOUR, end=101 * HOUR)
    after = replace(RUN, eligible=199 * HOUR, start=199 * HOUR, end=210 * HOUR)
    open_end = replace(RUN, eligible=198 * HOUR, start=198 * HOUR, end=None, state="RUNNING")
    total = share(before, after, open_end)
    assert hours(total) == {"completed": 4.0, "running": 4.0 + 8.0}
    assert total.waits == [0, 0]  # the first one began before the month
    assert hours(share(replace(RUN, start=10 * HOUR, end=20 * HOUR))) == {}


def test_checks_of_corral_are_no_use_of_an_account() -> None:
    assert hours(share(replace(RUN, account="corral-proof"))) == {"checks": 8.0}


def test_tasks_of_an_array_that_wait_count_each() -> None:
    pending = replace(RUN, label="7_[3-5%2]", state="PENDING", start=None, end=None)
    assert share(pending).waited == 3 * 4 * 100  # from the month's begin to its end
    assert share(pending).runs == {}


def test_a_job_cancelled_before_its_start_waited_and_ran_nothing() -> None:
    line = "9|CANCELLED by 1000|396000|400000|400000|0||cpu=2,gres/gpu=1|lab"
    (run,) = readable_runs(line, "|")
    assert (run.state, run.start) == ("CANCELLED", None)
    total = share(run)
    assert (total.runs, total.waits) == ({}, [])
    assert total.waited == pytest.approx(4000 / HOUR)


@pytest.mark.parametrize("line", ["", "9|FAILED|lab", "9|FAILED|1|2|3|many|cpu=1|cpu=1|lab"])
def test_broken_lines_are_none(line: str) -> None:
    assert readable_runs(line, "|") == ()


def test_without_gpus_cpus_are_counted() -> None:
    assert hours(share(replace(RUN, tres="cpu=8"), unit="CPU")) == {"completed": 16.0}


def test_capacity_follows_the_clusters_size() -> None:
    """An event of slurmctld that went away overlaps and does not count."""
    text = (
        "|0|540000|||cpu=8,gres/gpu=4|Cluster Registered TRES\n"
        "|540000|Unknown|||cpu=16,gres/gpu=8|Cluster Registered TRES\n"
        "|450000|460000|DOWN||cpu=8,gres/gpu=4|slurmctld disconnect\n"
        "n1|450000|460000|DOWN|root(0)|cpu=8,gres/gpu=4|x"
    )
    assert hours_of(readable_sizes(text), MONTH, "GPU") == 50 * 4 + 50 * 8


def test_waits_are_of_all_runs() -> None:
    assert asdict(waits([])) == {"jobs": 0, "median": 0, "p90": 0, "longest": 0}
    assert asdict(waits([*range(1, 11)])) == {"jobs": 10, "median": 5.5, "p90": 9, "longest": 10}
    assert waits([7]).p90 == 7


def report() -> UsageReport:
    accounts = {"lab": share(RUN), "bio": share(replace(RUN, state="FAILED"))}
    outages = [
        Outage("n1", 90 * HOUR, 102 * HOUR, "DRAIN", "root", "no link", "gres/gpu=4"),
        Outage("n1", 150 * HOUR, 151 * HOUR, "DOWN", "root", "<b>bad</b>", "gres/gpu=4"),
        Outage("n2", 10 * HOUR, 11 * HOUR, "DOWN", "root", "before", "gres/gpu=4"),
    ]
    total = share(RUN, replace(RUN, state="FAILED"))
    down = hours_of(outages, MONTH, "GPU")
    return UsageReport(
        "lab", MONTH, "GPU", 800.0, down, total, accounts, down_nodes(outages, MONTH), 2.5
    )


def test_each_cause_has_its_hours_and_what_was_planned_none_of_theirs() -> None:
    """The doctor's reading of Slurm's reasons: numbers in what a person wrote do not count."""

    def out(node: str, start: int, end: int | None, reason: str) -> Outage:
        tres, at_end = "gres/gpu=2", None if end is None else end * HOUR
        return Outage(node, start * HOUR, at_end, "DRAIN", "root", reason, tres=tres)

    seen = [
        out("a0", 90, 104, "fan 3 is loud"),
        out("a1", 110, 111, "fan 12 is loud"),
        out("a0", 120, 121, "planned: more memory"),
        out("a0", 190, None, "Not responding"),
        out("a2", 130, 131, ""),
        out("a2", 10, 20, "fan 3 is loud"),
    ]
    rows = lost_by_cause(seen, MONTH, "GPU")
    (silent,) = [row for row in rows if row.id.startswith("F")]
    assert (silent.nodes, silent.times, silent.hours) == (1, 1, 20.0)
    shown = {(row.title, row.nodes, row.times, row.hours) for row in rows if row is not silent}
    assert shown == {
        ("fan 3 is loud", 2, 2, 10.0),
        ("planned", 1, 1, 2.0),
        ("no reason is recorded", 1, 1, 2.0),
    }
    assert [row.hours for row in rows] == sorted((row.hours for row in rows), reverse=True)


def test_json_has_all_figures() -> None:
    fields = report().as_dict()
    assert fields["down_hours"] == 12.0
    assert fields["idle_hours"] == 800.0 - 12.0 - 16.0
    assert (fields["utilisation"], fields["goodput"]) == (0.02, 0.01)
    assert fields["accounts"]["lab"]["cost"] == 20.0
    assert fields["nodes"] == {
        "n1": {"hours": 3.0, "times": 2, "causes": ("no link", "<b>bad</b>")}
    }


def test_the_page_is_one_file_and_escapes_what_others_wrote() -> None:
    page = usage_page(report())
    assert "&lt;b&gt;bad&lt;/b&gt;" in page
    assert "<script" not in page
    assert " src=" not in page
    tables = usage_tables(report())
    assert tables["Accounts"][1][-1] == (
        *("all", "2", "16.00", "8.00", "8.00", "80.00"),
        *("11:00:00", "11:00:00", "11:00:00", "32.00", "0.00", "40.00"),
    )
    assert gpuless_note(report()) == ""


def test_jobs_without_gpus_are_in_no_gpu_hour_and_reported() -> None:
    """Eight CPUs for two hours each; one has shards of a GPU, one a GPU."""
    total = share(
        replace(RUN, tres="cpu=8"),
        replace(RUN, tres="cpu=8,gres/shard=2"),
        replace(RUN, tres="cpu=8,gres/gpu=1"),
    )
    assert (total.allocated, total.cpu_hours, total.gpuless) == (2.0, 48.0, 32.0)
    seen = UsageReport("lab", MONTH, "GPU", 800.0, 0.0, total, {"lab": total}, {}, 2.5)
    note = gpuless_note(seen)
    assert note.startswith("32.00 of 48.00 CPU-hours were of jobs without GPUs")
    assert note in usage_page(seen)
    head, ((*_, cpus, without, cost),) = usage_tables(seen)["Accounts"]
    assert head[-3:] == ("CPU-hours", "without GPUs", "cost")
    assert (cpus, without, cost) == ("48.00", "32.00", "5.00")
    fields = seen.as_dict()["accounts"]["lab"]
    assert (fields["cpu_hours"], fields["cpu_hours_without_gpus"]) == (48.0, 32.0)


def test_without_gpus_there_is_one_kind_of_hours() -> None:
    total = share(replace(RUN, tres="cpu=8"), unit="CPU")
    seen = UsageReport("lab", MONTH, "CPU", 800.0, 0.0, total, {"lab": total}, {})
    assert gpuless_note(seen) == ""
    assert usage_tables(seen)["Accounts"][0][-1] == "longest"
