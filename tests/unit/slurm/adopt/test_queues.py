"""Settings, licences and partitions' fields of somebody's slurm.conf in the cluster file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.durations import interval_seconds, span_seconds
from corral.slurm.adopt import queues
from corral.slurm.adopt.carried import carried
from corral.slurm.adopt.conversion import cluster_file
from corral.slurm.conf.fields import keys_of_fields, pairs_of_fields
from corral.spec.load import load_text
from corral.spec.models import ClusterSpec, Partition
from corral.spec.rules.people import FIRST_QOS, OWN_ACCOUNT
from corral.spec.slurm.keys import key_table
from corral.spec.slurm.written_keys import Key
from corral.tables import parse_table
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


def adopted(conf: str = CONF, gres: str = "") -> tuple[ClusterSpec, str]:
    files = {"slurm.conf": conf} | ({"gres.conf": gres} if gres else {})
    text = cluster_file(existing(files, "24.11"))
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
    assert (
        "AllowAccounts=x: everybody may submit there; partitions.allow_accounts: no account is "
        "called x"
    ) in notes
    assert "MaxNodes=UNLIMITED" in notes
    for word in ("PriorityTier", "OverSubscribe", "Licenses", "MaxNodes=1", "State"):
        assert word not in notes


def test_gpus_of_several_types_and_shards_are_carried() -> None:
    spec, notes = adopted(
        "ClusterName=lab\nSlurmctldHost=n0(10.0.0.1)\nGresTypes=gpu,shard,nic\n"
        "NodeName=n0 NodeAddr=10.0.0.1 CPUs=2 RealMemory=2000 "
        "Gres=gpu:gtx970:1,gpu:gtx1060:2,shard:24,nic:1\n"
        "NodeName=n1 NodeAddr=10.0.0.2 CPUs=2 RealMemory=2000 Gres=gpu:a100:3,shard:10\n"
        "PartitionName=main Nodes=n[0-1] Default=YES MaxTime=INFINITE\n",
        "NodeName=n0 Name=gpu Type=gtx970 File=/dev/nvidia0\n"
        "NodeName=n0 Name=gpu Type=gtx1060 File=/dev/nvidia[1-2]\n"
        "NodeName=n0 Name=shard Count=24\n",
    )
    several, single = spec.groups
    assert [(g.type, g.count, g.shards) for g in several.gpus] == [
        ("gtx970", 1, 8),
        ("gtx1060", 2, 8),
    ]
    assert single.gpu is not None
    assert (single.gpu.type, single.gpu.count, single.gpu.shards) == ("a100", 3, None)
    assert "Gres=nic:1" in notes
    assert "NodeName=n1 Gres=shard:10" in notes  # not as many on each GPU
    assert "shard:24" not in notes


TYPED = "Name=gpu Type=a100 File=/dev/nvidia[0-1]\nName=gpu Type=t4 File=/dev/nvidia[2-3]\n"
LAST = "Name=shard Count=4 File=/dev/nvidia2\nName=shard Count=4 File=/dev/nvidia3\n"


def shards(gres: str, parts: str = "gpu:a100:2,gpu:t4:2,shard:8") -> tuple[list[int | None], bool]:
    """Shards of each GPU by types, and whether the Gres is reported as not carried over."""
    spec, notes = adopted(
        "ClusterName=lab\nSlurmctldHost=n0(10.0.0.1)\nGresTypes=gpu,shard\n"
        f"NodeName=n0 NodeAddr=10.0.0.1 CPUs=2 RealMemory=2000 Gres={parts}\n"
        "PartitionName=main Nodes=n0 Default=YES MaxTime=INFINITE\n",
        gres,
    )
    return [gpu.shards for gpu in spec.groups[0].gpu_kinds], "Gres=shard:" in notes


def test_shards_of_several_types_are_those_of_their_devices() -> None:
    assert shards(TYPED + LAST) == ([None, 4], False)
    assert shards(TYPED + LAST, "gpu:a100:2,gpu:t4:2,shard:t4:8") == ([None, 4], False)
    assert shards(LAST, "gpu:t4:2,shard:8") == ([4], False)
    assert shards("", "gpu:t4:2,shard:t4:8") == ([4], False)


@pytest.mark.parametrize(
    ("gres", "parts"),
    [
        ("", "gpu:a100:2,gpu:t4:2,shard:8"),  # which GPUs they are of is nowhere
        ("", "gpu:a100:2,gpu:t4:2,shard:t4:8"),
        (LAST, "gpu:a100:2,gpu:t4:2,shard:8"),  # of which type its devices are is nowhere
        (TYPED + LAST, "gpu:a100:2,gpu:t4:2,shard:a100:8"),
        (TYPED + LAST, "gpu:a100:2,gpu:t4:2,shard:16"),
        (TYPED + LAST.replace("4 File=/dev/nvidia3", "2 File=/dev/nvidia3"),
         "gpu:a100:2,gpu:t4:2,shard:6"),
        ("Name=shard Count=8 File=/dev/nvidia0\n", "gpu:t4:2,shard:8"),  # one is not shared
    ],
)  # fmt: skip
def test_shards_that_the_files_do_not_explain_are_reported(gres: str, parts: str) -> None:
    carried, reported = shards(gres, parts)
    assert (set(carried), reported) == ({None}, True)


FILE = """\
ClusterName=lab
SlurmctldHost=n0(10.0.0.1)
AccountingStorageType=accounting_storage/slurmdbd
NodeName=n[0-1] NodeAddr=10.0.0.[1-2] CPUs=2 RealMemory=2000{node}
PartitionName=main Nodes=n[0-1] Default=YES MaxTime=INFINITE{partition}
"""
SPANS = st.integers(1, 999).map(lambda hours: f"{hours // 24}-{hours % 24:02}:30:00")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "state": st.sampled_from(("up", "down", "drain", "inactive")),
    "default_time": st.one_of(st.just("infinite"), SPANS, st.just("12"), st.just("1:30")),
    "min_nodes": st.integers(1, 2),
    "max_nodes": st.integers(2, 100000),
    "max_cpus_per_node": st.integers(1, 65535),
    "max_memory_gib": st.integers(1, 1000000),
    "priority_tier": st.integers(1, 65533),
    "priority_job_factor": st.integers(0, 65533),
    "grace_time": st.one_of(
        st.just("off"), st.builds("{}{}".format, st.integers(1, 999), st.sampled_from("smhd"))
    ),
    "oversubscribe": st.sampled_from(("no", "exclusive", "yes", "force", "yes:4", "force:999")),
    "allow_groups": st.lists(st.sampled_from(("users", "ai", "x-1")), unique=True).map(tuple),
    "allow_accounts": st.sampled_from(((), (OWN_ACCOUNT,))),
    "deny_accounts": st.sampled_from(((), (OWN_ACCOUNT,))),
    "allow_qos": st.sampled_from(((), (FIRST_QOS,))),
    "deny_qos": st.sampled_from(((), (FIRST_QOS,))),
    "qos": st.sampled_from((None, FIRST_QOS)),
    "hidden": st.booleans(),
}
LENGTHS = {"default_time": span_seconds, "grace_time": interval_seconds}


def kept(partition: Partition) -> dict[str, object]:
    """Its fields that are keys; lengths of time in seconds, as 120s and 2m are one."""
    fields = {name: getattr(partition, name) for name in VALUES}
    return {
        name: LENGTHS[name](value) if name in LENGTHS and value is not None else value
        for name, value in fields.items()
    }


def test_each_key_of_a_partition_has_a_strategy() -> None:
    """So that a field which comes is adopted: the next test makes a value of it."""
    fields = {k.field.partition(".")[2] for k in keys_of_fields() if k.line == "PartitionName"}
    assert fields == set(VALUES)


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_what_a_partition_declares_is_adopted_from_its_line(fields: dict[str, Any]) -> None:
    for allow, deny in (("allow_accounts", "deny_accounts"), ("allow_qos", "deny_qos")):
        if fields.get(allow):
            fields.pop(deny, None)
    data = {"name": "main", "groups": ("g",), "default": True, **fields}
    partition = Partition.model_validate(data, strict=True)
    pairs = pairs_of_fields("PartitionName", partition, keys_of_fields())
    spec, notes = adopted(FILE.format(node="", partition="".join(f" {k}={v}" for k, v in pairs)))
    assert notes == ""
    assert kept(spec.partitions[0]) == kept(partition)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("QOS=gold", "partitions.qos: no QOS is called gold"),
        ("AllowQos=normal,gold", "everybody may submit there; partitions.allow_qos: no QOS is"),
        ("DenyAccounts=eve", "everybody may submit there; partitions.deny_accounts: no account"),
        ("MinNodes=3", "partitions.min_nodes: min_nodes is 3, and main has 2 nodes"),
        ("MaxNodes=UNLIMITED", "partitions.max_nodes: not a number"),
        ("MaxNodes=0", "partitions.max_nodes: Input should be greater than or equal to 1"),
        ("MaxMemPerNode=1500", "partitions.max_memory_gib: not a whole number of GiB"),
        ("DefaultTime=NONE", "partitions.default_time: 'NONE' is not a time in Slurm's grammar"),
        ("DefaultTime=0", "partitions.default_time: default_time 0 lets no job run"),
        ("GraceTime=1001", "partitions.grace_time: String should match pattern"),
        ("OverSubscribe=FORCE:0", "partitions.oversubscribe: String should match pattern"),
        ("Hidden=maybe", "everybody may submit there; partitions.hidden: neither yes nor no"),
        ("State=GONE", "partitions.state: Input should be 'up', 'down', 'drain' or 'inactive'"),
        ("LLN=YES", ""),
    ],
)
def test_what_no_field_can_hold_is_listed_with_the_reason(key: str, why: str) -> None:
    spec, notes = adopted(FILE.format(node="", partition=f" PriorityTier=3 {key}"))
    assert spec.partitions[0].priority_tier == 3
    assert f"PartitionName=main {key}{f': {why}' if why else ''}" in notes
    assert notes.count("PartitionName=") == 1


MADE_UP = """\
- {file: slurm.conf, line: PartitionName, name: LLN, field: partitions.hidden, form: switch,
   value: as declared, reason: A test., impact: reload, source: slurm.conf(5)}
- {file: slurm.conf, line: NodeName, name: MemSpecLimit, field: groups.memory_mib, form: value,
   value: as declared, reason: A test., impact: reload, source: slurm.conf(5)}
"""


def test_a_field_that_comes_is_adopted_by_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a partition or a group: the row in keys.yaml is all that adoption needs."""
    extra = parse_table(MADE_UP, "keys.yaml", tuple[Key, ...])
    conf = FILE.format(node=" MemSpecLimit={}", partition=" LLN=YES")
    spec, notes = adopted(conf.format(4096))
    assert "LLN=YES" in notes and "MemSpecLimit=4096" in notes
    monkeypatch.setattr(queues, "keys_of_fields", lambda: extra)
    queues._fields.cache_clear()
    try:
        spec, notes = adopted(conf.format(4096))
    finally:
        queues._fields.cache_clear()
    assert (spec.partitions[0].hidden, spec.groups[-1].memory_mib) == (True, 4096)
    assert notes == ""


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
