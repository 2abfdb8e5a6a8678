"""Partitions, licences, settings and reservations of the example reach Slurm's files and stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from corral.roles.machine.people import accounts
from corral.roles.order import configured, desired_stages
from corral.slurm.conf.conf_file import ConfLine
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.state.slurm.reservations import SlurmReservations
from tests.unit.roles.test_cluster import laptop, site

QUEUES = load_or_raise(Path(__file__).parents[4] / "examples" / "queues.yaml")


def partitions(spec: ClusterSpec) -> dict[str, ConfLine]:
    lines = configured(site(spec)).slurm_files.slurm.lines_of("PartitionName")
    return {line.value: line for line in lines}


def laptop_with(*fields: dict[str, Any], **more: Any) -> ClusterSpec:
    data = laptop().model_dump(mode="json", exclude_defaults=True)
    parts = [{"name": f"p{i}", "groups": ["cpu"], **each} for i, each in enumerate(fields)]
    return ClusterSpec.model_validate({**data, "partitions": parts, **more})


def test_the_example_is_written() -> None:
    slurm = configured(site(QUEUES)).slurm_files.slurm
    assert slurm.get("MaxArraySize") == "10001"
    assert slurm.get("EnforcePartLimits") == "ALL"
    assert slurm.get("Licenses") == "matlab:5"
    assert (slurm.get("PreemptType"), slurm.get("PreemptMode")) == (
        "preempt/partition_prio",
        "CANCEL",
    )
    lines = partitions(QUEUES)
    assert str(lines["batch"]).endswith(" DefaultTime=01:00:00 PreemptMode=OFF")
    assert str(lines["interactive"]).endswith(" MaxNodes=1 PriorityTier=2 PreemptMode=OFF")
    assert str(lines["scavenge"]).endswith(" GraceTime=60 PreemptMode=REQUEUE")
    assert str(lines["physics"]).endswith(
        " OverSubscribe=EXCLUSIVE AllowAccounts=physics,corral-proof PreemptMode=OFF"
    )
    (made,) = [
        resource
        for stage in desired_stages(site(QUEUES))
        for desired in stage.desired
        for resource in desired.resources
        if isinstance(resource, SlurmReservations)
    ]
    (upkeep,) = made.reservations
    assert (upkeep.start, upkeep.minutes, upkeep.users) == ("2026-01-06T06:00:00", 120, ("root",))
    assert upkeep.nodes == ("gpu0", "gpu1", "gpu2", "gpu3", "cpu0", "cpu1")
    assert upkeep.flags == ("MAINT", "IGNORE_JOBS", "WEEKLY")


def test_tiers_alone_let_no_job_be_preempted_when_proofs_give_way() -> None:
    """The scheduled proof's global mode would hold for every partition."""
    spec = laptop_with({"default": True}, {"priority_tier": 3}, proof={"every": "12h"})
    lines = partitions(spec)
    assert lines["p0"].get("PreemptMode") == lines["p1"].get("PreemptMode") == "OFF"
    assert lines["corral-proof"].get("PreemptMode") == "CANCEL"
    both = laptop_with({"preempt_mode": "requeue"}, {"priority_tier": 3}, proof={"every": "12h"})
    assert partitions(both)["p0"].get("PreemptMode") == "REQUEUE"


def test_nothing_declared_writes_nothing() -> None:
    (line,) = partitions(laptop()).values()
    keys = [key for key, _ in line.pairs]
    assert keys == ["PartitionName", "Nodes", "Default", "MaxTime", "DefMemPerCPU"]


def test_proofs_are_admitted_everywhere() -> None:
    spec = laptop_with({"allow_qos": ["night"], "allow_groups": ["lab"]}, qos=[{"name": "night"}])
    line = partitions(spec)["p0"]
    assert line.get("AllowQos") == "night,corral-proof"
    assert line.get("AllowGroups") == "lab,corral-proof"
    (slurm_accounts,) = accounts(site(spec))
    proof = next(m for m in slurm_accounts.users if m.name == "corral-proof")
    assert proof.default_qos == "corral-proof"
    assert "corral-proof" in {qos.name for qos in slurm_accounts.qos}
    free = laptop_with({"allow_groups": ["lab"]}, slurm={"accounting": False})
    assert partitions(free)["p0"].get("AllowGroups") == "lab"


def test_a_factor_turns_priorities_on() -> None:
    slurm = configured(site(laptop_with({"priority_job_factor": 7}))).slurm_files.slurm
    assert slurm.get("PriorityType") == "priority/multifactor"
    assert slurm.get("PriorityWeightPartition") == "10000"
    weight = {"settings": {"PriorityWeightPartition": 5, "PriorityType": "priority/multifactor"}}
    other = configured(site(laptop_with({"priority_job_factor": 7}, slurm=weight))).slurm_files
    assert other.slurm.get("PriorityWeightPartition") == "5"


def test_groups_may_overlap() -> None:
    lines = partitions(laptop_with({"default": True}, {}))
    assert lines["p0"].get("Nodes") == lines["p1"].get("Nodes") == "node[0-2]"


def test_reservations_hold_the_groups_or_nodes_that_they_name() -> None:
    entries = [
        {"name": "a", "start": "2099-01-31T08:00", "duration": "1:30", "groups": ["gpu"]},
        {"name": "b", "start": "2099-01-31T08:00", "duration": "1-0", "nodes": "cpu1",
         "accounts": ["physics"], "flags": []},
    ]  # fmt: skip
    data = QUEUES.model_dump(mode="json", exclude_defaults=True)
    spec = ClusterSpec.model_validate({**data, "reservations": entries})
    stages = {stage.name: stage for stage in desired_stages(site(spec))}
    ((made,),) = [desired.resources for desired in stages["reservations"].desired]
    assert isinstance(made, SlurmReservations)
    a, b = made.reservations
    assert (a.nodes, a.minutes) == (("gpu0", "gpu1", "gpu2", "gpu3"), 90)
    assert (b.nodes, b.minutes, b.users, b.accounts) == (("cpu1",), 1440, (), ("physics",))
    assert replace(b, flags=()) == b
