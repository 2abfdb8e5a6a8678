"""Settings, licences and partitions' fields of somebody's slurm.conf in the cluster file."""

from __future__ import annotations

import pytest

from corral.slurm.adopt.carried import carried
from corral.slurm.adopt.conversion import cluster_file
from corral.spec.load import load_text
from corral.spec.models import ClusterSpec
from corral.spec.slurm.keys import key_table
from tests.unit.slurm.adopt.files import existing

CONF = """\
ClusterName=lab
SlurmctldHost=n0(10.0.0.1)
maxarraysize=5001
SchedulerParameters=bf_continue,bf_window=2880
KillWait=60
KillOnBadExit=yes
EnforcePartLimits=ALL
ReturnToService=1
JobSubmitPlugins=lua
MaxStepCount=1
MaxStepCount=2
Licenses=matlab:4,ansys:2
NodeName=n[0-1] NodeAddr=10.0.0.[1-2] CPUs=2 RealMemory=2000
PartitionName=main Nodes=n[0-1] Default=YES MaxTime=1-0 PriorityTier=3 MaxNodes=1 State=UP
PartitionName=old Nodes=n1 State=DRAIN OverSubscribe=FORCE:2 AllowAccounts=x MaxNodes=UNLIMITED
"""


def adopted(conf: str = CONF) -> tuple[ClusterSpec, str]:
    text = cluster_file(existing({"slurm.conf": conf}, "24.11"))
    loaded = load_text(text, "x.yaml")
    assert loaded.spec is not None, [str(f) for f in loaded.findings]
    return loaded.spec, text.partition("# Not carried over:")[2]


def test_settings_are_carried_and_nothing_twice() -> None:
    spec, notes = adopted()
    assert spec.slurm.settings == {
        "EnforcePartLimits": "ALL",
        "KillWait": "60",
        "MaxArraySize": "5001",
        "ReturnToService": "1",
        "SchedulerParameters": "bf_continue,bf_window=2880",
    }
    for key in spec.slurm.settings:
        assert key.lower() not in notes.lower()
    assert "KillOnBadExit=yes" in notes  # a number in Slurm
    assert "JobSubmitPlugins=lua" in notes  # a plugin with a file
    assert "MaxStepCount" in notes  # twice: which one is meant is for a person


def test_licences_and_fields_of_partitions_are_carried() -> None:
    spec, notes = adopted()
    assert [(each.name, each.count) for each in spec.licenses] == [("matlab", 4), ("ansys", 2)]
    main, old = spec.partitions
    assert (main.priority_tier, main.max_nodes, main.state) == (3, 1, "up")
    assert (old.state, old.oversubscribe, old.max_nodes) == ("drain", "force:2", None)
    assert "AllowAccounts=x: everybody may submit there" in notes
    assert "MaxNodes=UNLIMITED" in notes
    for word in ("PriorityTier", "OverSubscribe", "Licenses", "MaxNodes=1", "State"):
        assert word not in notes


@pytest.mark.parametrize("licenses", ["matlab", "matlab:0", "a:1,a:2", "fluent@db:3"])
def test_licences_that_cannot_be_written_are_listed(licenses: str) -> None:
    spec, notes = adopted(CONF.replace("matlab:4,ansys:2", licenses))
    assert spec.licenses == ()
    assert f"Licenses={licenses}" in notes


@pytest.mark.parametrize("line", ["", "NodeName", "PartitionName"])
def test_keys_that_are_carried_over_are_slurms(line: str) -> None:
    keys = carried()
    of_line = {"NodeName": keys.node, "PartitionName": (*keys.partition, *keys.access)}
    names = [
        word.rstrip("*?#").lower()
        for group in key_table().groups
        if group.file == "slurm.conf" and group.line == line
        for word in group.keys.split()
    ]
    begins = ("nodename", "partitionname")
    assert set(of_line.get(line, (*keys.settings, *keys.replaced))) - {*begins} <= set(names)
