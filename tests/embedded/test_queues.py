"""slurm.settings, partitions, licences and reservations as a real Slurm reads them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.running_cluster import settled, summaries

from corral import api
from corral.hosts.quote import reread, sh
from corral.hosts.transport import Result
from corral.spec.models import ClusterSpec

FAR = {"name": "far", "start": "2099-01-31T08:00", "duration": "4", "nodes": "node1"}
DECLARED: dict[str, Any] = {
    "slurm": {
        "settings": {
            "MaxArraySize": 501,
            "KillWait": 20,
            "SchedulerParameters": "bf_interval=7",
            "MessageTimeout": 33,
            "EnforcePartLimits": "ALL",
        }
    },
    "accounts": [{"name": "physics"}, {"name": "chemistry"}],
    "users": [
        {"name": "alice", "uid": 2001, "account": "physics"},
        {"name": "bob", "uid": 2002, "account": "chemistry"},
    ],
    "partitions": [
        {"name": "main", "groups": ["cpu"], "default": True},
        {
            "name": "physics",
            "groups": ["cpu"],
            "allow_accounts": ["physics"],
            "priority_tier": 2,
            "priority_job_factor": 10,
            "max_nodes": 1,
            "default_time": "0:10",
        },
        {"name": "low", "groups": ["cpu"], "preempt_mode": "cancel"},
        {"name": "closed", "groups": ["cpu"], "state": "drain", "hidden": True},
    ],
    "licenses": [{"name": "matlab", "count": 1}],
}


def declared(live: Live, **changes: Any) -> ClusterSpec:
    return ClusterSpec.model_validate(
        {**live.spec.model_dump(mode="json", exclude_defaults=True), **DECLARED, **changes}
    )


@pytest.fixture(scope="module")
def live(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """A cluster with all of it, and a reservation of node2 that has begun."""
    plain = Live(named(os.environ.get("CORRAL_TEST_QUEUES", f"queues-{os.getpid()}")), {})
    if "CORRAL_TEST_QUEUES" in os.environ:
        settled(Live(declared(plain), {}))
        return Live(declared(plain), {})
    return fresh_cluster(declared(plain))


def as_user(live: Live, user: str, script: str) -> Result:
    asked = sh("cd /tmp && runuser -u {u} -- sh -c {s} 2>&1", u=user, s=script)
    return live.run(live.controller, asked, timeout=150)


def test_slurmctld_runs_with_the_settings(live: Live) -> None:
    config = live.run(live.controller, sh("scontrol show config")).stdout
    lines = (line.partition("=") for line in config.splitlines())
    words = {key.strip(): value.strip() for key, _, value in lines}
    assert words["MaxArraySize"] == "501"
    assert words["KillWait"].split()[0] == "20"
    assert words["MessageTimeout"].split()[0] == "33"
    assert words["SchedulerParameters"] == "batch_sched_delay=0,bf_interval=7"
    assert words["EnforcePartLimits"] == "ALL"
    assert words["PreemptType"] == "preempt/partition_prio"
    assert words["Licenses"] == "matlab:1"
    partitions = live.run(live.controller, sh("scontrol -o show partition")).stdout
    by_name = {line.split()[0].partition("=")[2]: line for line in partitions.splitlines()}
    assert "AllowAccounts=physics,corral-proof " in by_name["physics"]
    assert "PreemptMode=CANCEL" in by_name["low"]
    assert "PreemptMode=OFF" in by_name["main"]
    assert "State=DRAIN" in by_name["closed"]
    assert asyncio.run(api.plan(live.spec)).empty


def test_a_partition_takes_the_jobs_that_it_admits(live: Live) -> None:
    refused = as_user(live, "bob", "timeout 30 srun -p physics hostname")
    assert not refused.ok
    assert "account" in refused.stdout
    assert as_user(live, "alice", "timeout 60 srun -p physics hostname").ok
    assert as_user(live, "corral-proof", "timeout 60 srun -p physics hostname").ok
    wide = as_user(live, "alice", "timeout 30 srun -p physics -N2 hostname")
    assert not wide.ok
    assert not as_user(live, "alice", "timeout 30 srun -p closed hostname").ok


def test_a_job_makes_room_for_one_of_a_higher_tier(live: Live) -> None:
    submit = "sbatch --parsable -p low -w node1 --exclusive -o /dev/null --wrap 'sleep 900'"
    low = as_user(live, "bob", submit).stdout.strip()
    assert low.isdigit(), low
    wait = f"until squeue -h -t R -o %A -j {low} | grep -q .; do sleep 0.2; done"
    assert live.run(live.controller, sh("timeout 60 sh -c {w}", w=wait)).ok
    higher = as_user(live, "alice", "timeout 100 srun -p physics -w node1 --exclusive hostname")
    assert higher.stdout.split()[-1] == "node1", higher.stdout
    state = live.run(live.controller, sh("sacct -nX -o State -j {j}", j=low)).stdout
    assert "PREEMPTED" in state, state


def test_a_job_waits_for_a_licence(live: Live) -> None:
    submit = "sbatch --parsable -L matlab -o /dev/null --wrap 'sleep 900'"
    first = as_user(live, "alice", submit).stdout.strip()
    second = as_user(live, "bob", submit).stdout.strip()
    wait = f"until squeue -h -t R -o %A -j {first} | grep -q .; do sleep 0.2; done"
    assert live.run(live.controller, sh("timeout 60 sh -c {w}", w=wait)).ok
    wait = f"until squeue -h -o %r -j {second} | grep -qx Licenses; do sleep 0.2; done"
    assert live.run(live.controller, sh("timeout 60 sh -c {w}", w=wait)).ok
    live.run(live.controller, sh("scancel {f}", f=first))
    wait = f"until squeue -h -t R -o %A -j {second} | grep -q .; do sleep 0.2; done"
    assert live.run(live.controller, sh("timeout 90 sh -c {w}", w=wait)).ok
    live.run(live.controller, sh("scancel {s}", s=second))
    unknown = as_user(live, "bob", "timeout 30 srun -L ansys hostname")
    assert "license" in unknown.stdout.lower()


def test_a_reservation_keeps_jobs_out_and_only_corrals_own_are_removed(live: Live) -> None:
    clock = live.run(live.controller, sh("date -d '5 minutes ago' +%Y-%m-%dT%H:%M"))
    start = clock.stdout.strip()
    held: dict[str, Any] = {
        "name": "held",
        "start": start,
        "duration": "2",
        "nodes": "node2",
        "flags": [],
    }
    held["users"] = ["alice"]
    by_hand = (
        "scontrol create ReservationName=mine StartTime=2098-01-01T00:00:00 Duration=60 "
        "Nodes=node0 Users=root"
    )
    assert live.run(live.controller, reread(by_hand)).ok
    both = Live(declared(live, reservations=[held, FAR]), {})
    plan = asyncio.run(api.plan(both.spec))
    assert summaries(plan) == ["node0 reservations: create held, create far"]
    settled(both)
    assert asyncio.run(api.plan(both.spec)).empty
    refused = as_user(live, "bob", "timeout 60 srun --immediate=5 -w node2 hostname")
    assert not refused.ok, refused.stdout
    assert not as_user(live, "bob", "timeout 60 srun --reservation=held hostname").ok
    inside = as_user(live, "alice", "timeout 60 srun --reservation=held hostname")
    assert inside.stdout.split()[-1] == "node2", inside.stdout
    longer = {**held, "duration": "3", "nodes": "node[1-2]"}
    later = {**FAR, "start": "2099-02-01T08:00", "flags": ["maint", "weekly"]}
    changed = Live(declared(live, reservations=[longer, later]), {})
    plan = asyncio.run(api.plan(changed.spec))
    assert summaries(plan) == ["node0 reservations: change held, re-create far"]
    settled(changed)
    assert asyncio.run(api.plan(changed.spec)).empty
    settled(live)
    left = live.run(live.controller, sh("scontrol -o show reservation")).stdout
    assert "ReservationName=mine " in left
    assert "=held" not in left
    assert "=far" not in left
    assert asyncio.run(api.plan(live.spec)).empty
    assert live.run(live.controller, sh("scontrol delete ReservationName=mine")).ok
