"""The exporter's text: queue, accounts, waiting times, scheduler, and how many series it has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral import agents
from corral.slurm.diagnostics import DIAGNOSTICS, scheduler, shares
from corral.slurm.policy import Call, Scheduler
from corral.slurm.records import Job, Node, Partition
from corral.slurm.states.nodes import NodeState
from corral.slurm.text import QUEUE_COUNTED, parse_counted
from corral.web.exposition import MOST, OTHERS, Family, Histogram, families, reason_label, text_of
from corral.web.scheduler_metrics import scheduler_families, share_families
from corral.web.wait_times import Waits
from tests import prometheus_tools

RECORDED = Path(__file__).parents[2] / "recorded"
SDIAG = (RECORDED / "commands" / "24.11" / "sdiag.txt").read_text()
SSHARE = (RECORDED / "commands" / "24.11" / "sshare.txt").read_text()
PROMTOOL = prometheus_tools.find("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason=prometheus_tools.missing("promtool") or "promtool"
)
NOW = 1_800_000_000


def pending(reason: str = "Resources", **more: object) -> Job:
    fields = {"id": 1, "state": "PENDING", "user": "kim", "partition": "main", "reason": reason}
    return Job(**{**fields, **more})  # type: ignore[arg-type]


def running(number: int, **more: object) -> Job:
    fields = {
        "id": number,
        "state": "RUNNING",
        "user": "kim",
        "partition": "main",
        "eligible_at": NOW - 100,
        "start_at": NOW,
    }
    return Job(**{**fields, **more})  # type: ignore[arg-type]


def values(given: list[Family], name: str) -> dict[tuple[str, ...], float]:
    (family,) = (family for family in given if family.name == name)
    return {tuple(v for _, v in labels): value for labels, value in family.values.items()}


def test_pending_jobs_by_reason_account_and_age() -> None:
    jobs = [
        pending("(Resources)", account="physics", eligible_at=NOW - 50),
        pending("Resources", account="physics", eligible_at=NOW - 500),
        pending("ReqNodeNotAvail, UnavailableNodes:node[1-400]", account="bio"),
        pending("BeginTime", eligible_at=NOW + 900, partition="main,long"),
        running(7, account="bio", gpus=4),
    ]
    made = families((), jobs, (), NOW)
    assert values(made, "corral_jobs_pending") == {
        ("Resources",): 2,
        ("ReqNodeNotAvail",): 1,
        ("BeginTime",): 1,
    }
    assert values(made, "corral_jobs_pending_longest_seconds") == {("main",): 500}
    assert values(made, "corral_account_jobs_pending") == {("physics",): 2, ("bio",): 1}
    assert values(made, "corral_account_jobs_running") == {("bio",): 1}
    assert values(made, "corral_account_gpus") == {("bio",): 4}
    assert values(made, "corral_job_info") == {("7", "kim", "bio", "main"): 1}
    assert ("pending", "(several)") in values(made, "corral_jobs")


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("None", "None"),
        ("", "None"),
        ("(AssocGrpGRES)", "AssocGrpGRES"),
        ("Nodes required for job are DOWN, DRAINED or reserved", "Nodes_required_for_job_are_DOWN"),
    ],
)
def test_a_reason_is_its_word(reason: str, label: str) -> None:
    assert reason_label(reason) == label


def test_which_check_drained_a_node() -> None:
    reasons = {"a": "health.xid: GPU 3: 79", "b": "proof.hbm: 60 %", "c": "fan; health.xid"}
    nodes = [Node(name, NodeState.parse("IDLE+DRAIN"), reason) for name, reason in reasons.items()]
    nodes.append(Node("d", NodeState.parse("IDLE+CLOUD+POWERED_DOWN")))
    made = families(nodes, (), ())
    assert values(made, "corral_node_drained") == {
        ("a", "health", "xid"): 1,
        ("b", "proof", "hbm"): 1,
        ("c", "person", ""): 1,
    }
    assert values(made, "corral_node_powered_down") == {("d",): 1}


def test_waiting_times_are_counted_once_and_not_of_before() -> None:
    waits = Waits()
    waits.note([running(1), pending()], ["main", "long"])
    assert set(waits.family().sums.values()) == {0.0}
    assert len(waits.family().values) == 2
    ended = running(3, state="COMPLETED", eligible_at=NOW - 7200)
    never = running(4, state="CANCELLED")
    for _ in range(3):
        waits.note([running(1), running(2), ended, never])
    text = text_of([waits.family()])
    assert 'corral_job_wait_seconds_bucket{partition="main",le="60"} 0' in text
    assert 'corral_job_wait_seconds_bucket{partition="main",le="300"} 1' in text
    assert 'corral_job_wait_seconds_bucket{partition="main",le="+Inf"} 2' in text
    assert 'corral_job_wait_seconds_sum{partition="main"} 7300' in text
    assert 'corral_job_wait_seconds_count{partition="main"} 2' in text
    waits.note([running(2, start_at=NOW + 50)])  # requeued, and started again
    assert waits.family().sums[("partition", "main"),] == 7450


@pytest.mark.parametrize("state", ["DEADLINE", "CANCELLED"])
def test_a_job_that_was_ended_counts_where_it_had_started(state: str) -> None:
    """Slurm gives one that had not the time of its end as start, and no nodes."""
    waits = Waits()
    waits.note([], ["main"])
    waits.note([running(1, state=state, nodes="node0"), running(2, state=state)])
    assert waits.family().sums[("partition", "main"),] == 100
    assert sum(waits.family().values[("partition", "main"),]) == 1


def test_a_job_that_gets_a_signal_counts_once() -> None:
    waits = Waits()
    waits.note([], ["main"])
    for state in ("RUNNING", "SIGNALING", "RUNNING", "UPDATE_DB", "COMPLETED"):
        waits.note([running(1, state=state)])
    assert sum(waits.family().values[("partition", "main"),]) == 1


def test_squeues_columns() -> None:
    widths = [(int(column.rpartition(":")[2])) for column in QUEUE_COUNTED[-1].split(",")]
    row = (
        "PENDING",
        "main",
        "kim",
        "cpu=1,gres/gpu=2",
        "12",
        "physics",
        "Resources",
        "1800000000",
        "N/A",
    )
    line = "".join(value.ljust(width) for value, width in zip(row, widths, strict=True))
    (job,) = parse_counted(line)
    assert (job.id, job.account, job.reason) == (12, "physics", "Resources")
    assert (job.eligible_at, job.start_at, job.gpus) == (NOW, None, 2)


def test_what_sdiag_prints() -> None:
    """Recorded from Debian 13's own command."""
    read = scheduler(SDIAG)
    made = scheduler_families(read)
    assert len(made) == 20
    assert values(made, "corral_slurmctld_jobs_total")["submitted",] == 4
    cycles = values(made, "corral_scheduler_cycles_total")[()]
    assert cycles == read.main.count == 10
    seconds = values(made, "corral_scheduler_cycle_max_seconds")[()]
    assert seconds == pytest.approx(867 / 1e6)
    assert values(made, "corral_slurmctld_rpcs_total")["REQUEST_PARTITION_INFO",] > 0
    shouting = scheduler(SDIAG.replace("\troot  ", "\tKIM   "))
    assert shouting == read and not read.by_user, "users, whose names have no bound, are left out"


def test_a_scheduler_that_has_not_run_yet_has_gaps_and_no_zeros() -> None:
    read = scheduler(
        "Server thread count:  3\n\nMain schedule statistics (microseconds):\n"
        "\tLast cycle:   9\n\tLatency for 1000 calls: x\n"
    )
    names = {family.name for family in scheduler_families(read) if family.values}
    assert names == {"corral_slurmctld_threads", "corral_scheduler_cycle_seconds"}
    assert scheduler("sdiag: error: down") == Scheduler(jobs={})
    assert DIAGNOSTICS == ("sdiag",)


def test_shares_of_accounts_and_of_who_waits() -> None:
    """Recorded from Debian 13's own command."""
    known = list(shares(SSHARE))
    accounts = [share for share in known if not share.user]
    assert accounts
    assert all(share.account != "root" for share in known)
    user = next(share for share in known if share.user and share.factor is not None)
    jobs = [pending(account=user.account, user=user.user)]
    made = share_families(known, jobs)
    key = (user.user, user.account)
    assert values(made, "corral_user_fair_share_ratio") == {key: user.factor}
    assert values(share_families(known, []), "corral_user_fair_share_ratio") == {}
    assert {k for (k,) in values(made, "corral_account_shares_ratio")} == {
        a.account for a in accounts if a.part is not None
    }


def everything(nodes: int, jobs: int) -> Iterator[Family | Histogram]:
    """All that can be: each job with its own user, account, reason and list of partitions."""
    states = ("IDLE", "MIXED", "ALLOCATED", "DOWN", "IDLE+DRAIN", "MIXED+DRAIN")
    machines = [
        Node(
            f"node{i}",
            NodeState.parse(states[i % 6]),
            f"health.xid: {i}",
            gres="gpu:8",
            gres_used="gpu:4",
            cpus=128,
            memory=1 << 20,
            load=1.0,
            watts=900,
        )
        for i in range(nodes)
    ]
    kinds = ("PENDING", "RUNNING", "COMPLETED", "FAILED")
    queue = [
        Job(
            id=i + 1,
            state=kinds[i % 4],
            user=f"user{i}",
            account=f"account{i}",
            gpus=1,
            partition=f"p{i % 20}" if i % 4 else f"p{i},p{i + 1}",
            reason=f"Word{i}",
            eligible_at=NOW - i,
            start_at=NOW,
        )
        for i in range(jobs)
    ]
    partitions = [Partition(f"p{i}", "UP") for i in range(20)]
    waits = Waits()
    waits.note([], [partition.name for partition in partitions])
    waits.note(queue)
    yield from families(machines, queue, partitions, NOW)
    yield waits.family()
    calls = tuple(Call(f"REQUEST_{i}", i, 1, i) for i in range(500))
    yield from scheduler_families(replace(scheduler(SDIAG), by_type=calls))
    rows = "".join(f"account{i}|user{i}|0.5|0.5|0.5\naccount{i}||0.5|0.5|\n" for i in range(jobs))
    yield from share_families(shares(rows), queue)


def test_series_have_a_bound() -> None:
    """At 10,000 nodes and 50,000 jobs, as docs/guide/metrics.md states it."""
    nodes, jobs = 10_000, 50_000
    text = text_of(everything(nodes, jobs))
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    of_nodes = [line for line in lines if line.startswith("corral_node_")]
    assert len(of_nodes) <= 11 * nodes
    assert sum(line.startswith("corral_job_info") for line in lines) <= jobs
    others = [line for line in lines if not line.startswith(("corral_node_", "corral_job_info"))]
    assert len(others) <= 10 * MOST
    assert sum(OTHERS in line for line in others) >= 4
    counted = sum(
        float(line.rpartition(" ")[2]) for line in lines if line.startswith("corral_user_gpus")
    )
    assert counted == jobs / 4, "what has no separate series is in the sum"


@needs_promtool
def test_promtool_has_no_complaint() -> None:
    text = text_of([*everything(10, 40), Family("corral_info", "gauge", "Corral.", {(): 1})])
    assert checked(text) == (0, "")
    assert checked(text.replace("corral_backfill_cycles_total", "corral_backfill_cycles"))[0]
    assert checked("# TYPE corral_x gauge\ncorral_x 1\n")[0], "no help text"


@needs_promtool
def test_promtool_has_no_complaint_of_a_nodes_figures(tmp_path: Path) -> None:
    busy = RECORDED / "gpu" / "h200x4-busy"
    for line in (busy / "cgroups.txt").read_text().splitlines():
        pid, _, group = line.partition(" ")
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "cgroup").write_text(f"{group}\n")
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        f"#!/bin/sh\ncase $1 in *apps*) cat '{busy}/apps.csv';; *) cat '{busy}/gpus.csv';; esac\n"
    )
    smi.chmod(0o755)
    job = tmp_path / "system.slice" / "n_slurmstepd.scope" / "job_20"
    job.mkdir(parents=True)
    for name, content in (
        ("memory.current", "5000\n"),
        ("memory.stat", "inactive_file 10\n"),
        ("cpu.stat", "usage_usec 2500000\n"),
    ):
        (job / name).write_text(content)
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CORRAL_CGROUP": str(tmp_path),
        "CORRAL_PROC": str(tmp_path / "proc"),
    }
    argv = ["sh", str(agents.FOLDER / "figures.sh")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert "corral_gpu_job" in done.stdout
    assert "corral_job_cpu_seconds_total" in done.stdout
    assert checked(done.stdout) == (0, "")


def checked(text: str) -> tuple[int, str]:
    """``promtool check metrics``."""
    argv = [str(PROMTOOL), "check", "metrics"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr
