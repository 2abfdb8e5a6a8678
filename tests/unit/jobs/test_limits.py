"""Refusals before submission: each with its reason and the nearest thing that works."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.jobs.limits import (
    Rights,
    against_array,
    against_nodes,
    against_rights,
    against_spec,
    cpus_per_rank,
    gpus_left_out,
    memory_share,
    nearest,
    nodes_for,
    preemption_note,
    refuse,
)
from corral.jobs.model import JobSpec
from corral.slurm.records import Node
from corral.slurm.text import parse_nodes, readable_associations
from corral.spec.models import ClusterSpec

SPEC = ClusterSpec.model_validate(
    {
        "corral": "v1",
        "name": "lab",
        "groups": [
            {
                "name": "big",
                "provider": "ssh",
                "nodes": "big[0-1]",
                "gpu": {"type": "h200", "count": 8},
            },
            {
                "name": "small",
                "provider": "ssh",
                "nodes": "small[0-3]",
                "gpu": {"type": "rtx", "count": 2},
            },
            {"name": "cpu", "provider": "ssh", "nodes": "cpu[0-9]"},
        ],
        "partitions": [
            {"name": "main", "groups": ["big", "small"], "default": True, "max_time": "2-00"},
            {"name": "cpu", "groups": ["cpu"]},
            {"name": "old", "groups": ["cpu"], "state": "drain"},
            {"name": "wide", "groups": ["cpu"], "min_nodes": 2, "max_nodes": 4},
        ],
        "licenses": [{"name": "matlab", "count": 2}],
        "storage": [{"mount": "/shared", "kind": "existing"}],
        "users": [{"name": "ada", "uid": 2000}, {"name": "bob", "uid": 2001}],
    }
)


@pytest.mark.parametrize(
    ("fields", "reason", "instead"),
    [
        ({"partition": "mian"}, "no partition called mian", "did you mean main?"),
        ({"licenses": "matlb"}, "no licence called matlb", "did you mean matlab?"),
        (
            {"licenses": "fluent@db,matlab:3"},
            "3 licences of matlab asked for, the cluster has 2",
            "--licenses matlab:2 works",
        ),
        (
            {"partition": "old", "gpus_per_node": 0},
            "partition old takes no jobs: its state is drain",
            "partitions that do: main, cpu, wide",
        ),
        (
            {"partition": "wide", "nodes": 5, "gpus_per_node": 0},
            "5 nodes asked for, a job in partition wide has 4 at most",
            "--nodes 4, or another partition",
        ),
        (
            {"partition": "wide", "nodes": 1, "gpus_per_node": 0},
            "1 nodes asked for, a job in partition wide has 2 at least",
            "--nodes 2, or another partition",
        ),
        ({"partition": "zzz"}, "no partition called zzz", "partitions are: main, cpu"),
        ({"user": "bib"}, "no user called bib", "did you mean bob?"),
        ({"nodes": 7}, "7 nodes asked for, partition main has 6", "--nodes 6 works"),
        (
            {"nodes": 3, "gpus_per_node": 4},
            "3 nodes with 4 GPUs asked for, partition main has 2",
            "--nodes 2 works",
        ),
        (
            {"gpus_per_node": 9},
            "no node of partition main has 9 GPUs",
            "--nodes 2 --gpus-per-node 8 works, with 16 GPUs in all",
        ),
        (
            {"gpus_per_node": 4, "gpu_type": "rtx"},
            "no node of partition main has 4 GPUs of type rtx",
            "--nodes 2 --gpus-per-node 2 works, with 4 GPUs in all",
        ),
        (
            {"gpus_per_node": 40},
            "no node of partition main has 40 GPUs",
            "--nodes 2 --gpus-per-node 8 is the most there is",
        ),
        ({"gpus_per_node": 1, "gpu_type": "h20"}, "of type h20", "did you mean h200?"),
        ({"partition": "cpu", "gpus_per_node": 1}, "has 1 GPUs", "leave out --gpus-per-node"),
        ({"nodelist": "big1,bgi0"}, "no node called bgi0", "did you mean big0?"),
        ({"exclude": "zz"}, "no node called zz", "nodes are: big[0-1], small[0-3], cpu[0-9]"),
        ({"nodelist": "cpu[0-1]", "nodes": 2}, "cpu[0-1] is not in partition main", "big[0-1], sm"),
        ({"nodelist": "small1", "gpus_per_node": 4}, "small1 has no 4 GPUs", "--gpus-per-node 2"),
        (
            {"nodelist": "cpu1", "partition": "cpu", "gpus_per_node": 1},
            "cpu1 has no 1 GPUs",
            "leave out --gpus-per-node",
        ),
        ({"nodelist": "big[0-1]"}, "2 nodes required by name, 1 asked for", "--nodes 2 works"),
        ({"nodelist": "big0", "exclude": "big0"}, "big0 is required and excluded", "in one of"),
        (
            {"exclude": "big0", "nodes": 2, "gpus_per_node": 8},
            "2 nodes with 8 GPUs asked for, partition main has 1 without those excluded",
            "--nodes 1 works",
        ),
        ({"exclude": "big[0-1]", "gpus_per_node": 8}, "has 0 without", "exclude fewer nodes"),
        ({"time": "3d"}, "3d is longer than partition main allows", "--time 2-00:00:00"),
    ],
)
def test_against_the_file(fields: dict[str, object], reason: str, instead: str) -> None:
    (refusal,) = against_spec(JobSpec.model_validate({"script": "a.py", **fields}), SPEC)
    assert reason in refusal.reason
    assert instead in refusal.instead


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"nodes": 6, "gpus_per_node": 2},
        {"nodes": 2, "gpus_per_node": 8},
        {"nodes": 4, "gpus_per_node": 2, "gpu_type": "rtx"},
        {"partition": "cpu", "nodes": 10, "time": "365d"},
        {"time": "2d", "user": "bob"},
        {"nodelist": "big[0-1]", "exclude": "small0", "nodes": 5},
    ],
)
def test_what_fits_is_not_refused(fields: dict[str, object]) -> None:
    assert against_spec(JobSpec.model_validate({"script": "a.py", **fields}), SPEC) == []


RIGHTS = Rights(
    frozenset({"associations", "limits", "qos", "safe"}),
    readable_associations("physics|normal,high\nlab|normal\n", ("Account", "QOS")),
    ("normal", "high", "urgent"),
)


@pytest.mark.parametrize(
    ("fields", "reason", "instead"),
    [
        ({"account": "labb"}, "ada has no account labb", "did you mean lab?"),
        ({"account": "zzz"}, "no account zzz", "ada's accounts are: physics, lab"),
        ({"qos": "hihg"}, "no QOS called hihg", "did you mean high?"),
        ({"qos": "zzz"}, "no QOS called zzz", "QOS are: normal, high, urgent"),
        ({"qos": "normal,urgent"}, "may not ask for QOS urgent", "ask for high, normal"),
        ({"account": "lab", "qos": "high"}, "may not ask for QOS high", "may ask for normal"),
    ],
)
def test_against_accounting(fields: dict[str, object], reason: str, instead: str) -> None:
    job = JobSpec.model_validate({"script": "a", **fields})
    (refusal,) = against_rights(job, "ada", RIGHTS)
    assert reason in refusal.reason
    assert instead in refusal.instead


def test_what_accounting_allows_or_does_not_enforce() -> None:
    good = JobSpec(script="a", account="Physics", qos="HIGH")  # Slurm keeps both in lower case
    assert against_rights(good, "ada", RIGHTS) == []
    free = replace(RIGHTS, enforced=frozenset({"none"}))
    assert against_rights(JobSpec(script="a", account="zzz", qos="urgent"), "ada", free) == []
    nothing = Rights(frozenset({"none"}))
    assert against_rights(JobSpec(script="a", account="zzz", qos="zzz"), "ada", nothing) == []


def test_nodes_that_are_named_or_excluded() -> None:
    some = nodes(count=3)
    assert [n.name for n in nodes_for(JobSpec(script="a", exclude="n1"), "main", some)] == [
        "n0",
        "n2",
    ]
    named = JobSpec(script="a", nodelist="n[1-2]", nodes=2)
    assert [n.name for n in nodes_for(named, "main", some)] == ["n1", "n2"]
    more = named.model_copy(update={"nodes": 3})
    assert len(nodes_for(more, "main", some)) == 3


def test_an_exclusive_job_gets_all_memory() -> None:
    assert memory_share(JobSpec(script="a", exclusive=True), nodes()) == "0"
    assert memory_share(JobSpec(script="a", exclusive=True, mem="1G"), nodes()) == "1G"


def test_a_shell_gets_a_gpu_where_there_are_any() -> None:
    shell = JobSpec(script="shell")
    assert gpus_left_out(shell, SPEC, unasked=True).gpus_per_node == 1
    cpu = shell.model_copy(update={"partition": "cpu"})
    assert gpus_left_out(cpu, SPEC, unasked=True).gpus_per_node == 0


def test_no_shared_storage() -> None:
    (refusal,) = against_spec(JobSpec(script="a.py"), SPEC.model_copy(update={"storage": ()}))
    assert "shared storage" in refusal.reason


def test_all_reasons_in_one_error() -> None:
    refusals = against_spec(JobSpec(script="a.py", nodes=99, time="9d", user="eve"), SPEC)
    with pytest.raises(CorralError) as caught:
        refuse(refusals)
    assert caught.value.code is Code.USAGE
    for word in ("eve", "9d", "99 nodes"):
        assert word in caught.value.message
    assert "--nodes 6 works" in caught.value.hint


def nodes(*, count: int = 2, cpus: int = 16, gres: str = "gpu:slot:4(S:0)") -> tuple[Node, ...]:
    return parse_nodes(
        "\n".join(
            f"NodeName=n{n} CPUTot={cpus} CPUAlloc=0 Gres={gres} RealMemory=1000 "
            f"State={'IDLE' if n else 'DOWN+NOT_RESPONDING'} Partitions=main,x"
            for n in range(count)
        )
    )


def test_nodes_that_fit() -> None:
    some = (*nodes(), *nodes(gres="(null)"))
    assert len(nodes_for(JobSpec(script="a"), "main", some)) == 4
    assert len(nodes_for(JobSpec(script="a", gpus_per_node=4), "main", some)) == 2
    assert nodes_for(JobSpec(script="a", gpus_per_node=5), "main", some) == ()
    assert nodes_for(JobSpec(script="a", gpus_per_node=1, gpu_type="h200"), "main", some) == ()
    assert nodes_for(JobSpec(script="a"), "other", some) == ()


def test_a_fair_share_of_the_node() -> None:
    job = JobSpec(script="a", gpus_per_node=1)
    assert cpus_per_rank(job, nodes()) == 4
    assert memory_share(job, nodes()) == "250M"
    assert cpus_per_rank(JobSpec(script="a", gpus_per_node=4, ranks_per_node=1), nodes()) == 16
    assert memory_share(JobSpec(script="a"), nodes()) == "62M"
    assert memory_share(JobSpec(script="a", mem="3G"), nodes()) == "3G"
    assert cpus_per_rank(JobSpec(script="a", gpus_per_node=1, cpus_per_rank=2), nodes()) == 2
    assert cpus_per_rank(job, nodes(cpus=2)) == 1
    assert memory_share(job, ()) == ""


@pytest.mark.parametrize(("has", "share"), [(64000, "4000M"), (8000, "1024M"), (1000, "1000M")])
def test_a_container_gets_what_its_image_takes_to_unpack(has: int, share: str) -> None:
    inside = JobSpec(script="a", container="/shared/x.sqsh")
    some = [replace(node, memory=has) for node in nodes()]
    assert memory_share(inside, some) == share
    assert memory_share(inside.model_copy(update={"mem": "100M"}), some) == "100M"


@pytest.mark.parametrize(
    ("fields", "reason", "instead"),
    [
        ({"cpus_per_rank": 17}, "17 CPUs on each node asked for", "--cpus-per-rank 16 works"),
        ({"ranks_per_node": 32}, "32 CPUs", "--ranks-per-node 16 works"),
        ({"mem": "1G"}, "1G of memory", "--mem 1000M works"),
        ({"nodes": 2}, "2 nodes asked for, 1 of partition main are up", "corral doctor"),
    ],
)
def test_against_slurms_own_view(fields: dict[str, object], reason: str, instead: str) -> None:
    job = JobSpec.model_validate({"script": "a", **fields})
    (refusal,) = against_nodes(job, "main", nodes())
    assert reason in refusal.reason
    assert instead in refusal.instead


def test_a_job_that_fits_the_nodes() -> None:
    job = JobSpec(script="a", cpus_per_rank=16, mem="1000M", gpus_per_node=1)
    assert against_nodes(job, "main", nodes()) == []


@pytest.mark.parametrize(
    ("path", "above", "names", "hint"),
    [
        ("/shared/imagnet/t", "/shared", ["imagenet", "x"], "did you mean /shared/imagenet?"),
        ("/shared/x", "/shared", ["b", "a"], "/shared holds a, b"),
        ("/shared/x", "/shared", [], "/shared is empty"),
        ("/data/x", "/", ["date"], "did you mean /date?"),
    ],
)  # fmt: skip
def test_the_nearest_path(path: str, above: str, names: list[str], hint: str) -> None:
    assert nearest(path, above, names) == hint


def test_a_sweep_gets_a_gpu_a_point_where_there_are_any() -> None:
    sweep = {"lr": ("1", "2")}
    assert gpus_left_out(JobSpec(script="a", sweep=sweep), SPEC).gpus_per_node == 1
    assert gpus_left_out(JobSpec(script="a", sweep=sweep, gpus_per_node=0), SPEC).gpus_per_node == 0
    assert gpus_left_out(JobSpec(script="a"), SPEC).gpus_per_node == 0
    bare = SPEC.model_copy(update={"groups": SPEC.groups[2:], "partitions": ()})
    assert gpus_left_out(JobSpec(script="a", sweep=sweep), bare).gpus_per_node == 0


def test_an_array_that_slurm_cannot_hold() -> None:
    job = JobSpec(script="a", array="0-1001")
    assert "MaxArraySize is 1001" in against_array(job, 1001)[0].reason
    assert against_array(job, 1002) == against_array(job, None) == []
    assert against_array(JobSpec(script="a"), 1) == []


@pytest.mark.parametrize(("time", "grace"), [("2m", "2m"), ("1m", "2m"), ("2d", "1d")])
def test_time_to_save_must_fit(time: str, grace: str) -> None:
    job = JobSpec(script="a", requeue=True, time=time, grace=grace)
    assert any("grace" in r.reason or "save" in r.reason for r in against_spec(job, SPEC))
    assert not against_spec(job.model_copy(update={"requeue": False}), SPEC)


def rented(*, cluster: bool = False, count: int = 2, **mesh: object) -> ClusterSpec:
    pods = {"type": "NVIDIA H100 80GB HBM3", "count": 2, "cluster": cluster}
    groups = [
        {"name": "home", "provider": "ssh", "nodes": "desk", "addresses": "10.0.0.1"},
        {"name": "pods", "provider": "runpod", "nodes": f"pod[0-{count - 1}]", "cloud": pods},
    ]
    fields = {"corral": "v1", "name": "lab", "controller": "desk", "groups": groups}
    network: dict[str, object] = {"control": "tailscale"}
    if mesh:
        network["mesh"] = mesh
    return ClusterSpec.model_validate(
        {
            **fields,
            "network": network,
            "budget": {"per_hour": 50},
            "partitions": [{"name": "main", "groups": ["home", "pods"], "default": True}],
            "storage": [{"mount": "/shared", "kind": "existing"}],
        }
    )


@pytest.mark.parametrize(
    ("spec", "nodes", "refused"),
    [
        (rented(), 2, True),
        (rented(), 1, False),
        (rented(cluster=True), 2, False),
        (rented(cluster=True), 3, False),
        (rented(jobs="across-islands"), 2, True),
        (SPEC, 2, False),
    ],
)
def test_single_pods_run_jobs_of_one_node(spec: ClusterSpec, nodes: int, refused: bool) -> None:
    job = JobSpec(script="train.py", nodes=nodes)
    reasons = [r for r in against_spec(job, spec) if "runs jobs of one node" in r.reason]
    assert bool(reasons) == refused
    if refused:
        assert "TUN" in reasons[0].reason
        assert "cluster: true" in reasons[0].instead


LOW = "jobs of QOS low may be preempted: this one then ends; --requeue starts it again"
SPARE = "jobs of partition spare may be preempted: this one then ends; --requeue starts it again"
CANCEL = "jobs of partition spare may be preempted, which ends them: submit this one again then"


def preempting(*, mode: str = "off", preempts: tuple[str, ...] = ()) -> ClusterSpec:
    """Two partitions of which one gives way, or two QOS."""
    return ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "lab",
            "groups": [{"name": "cpu", "provider": "embedded", "nodes": "node[0-1]"}],
            "partitions": [
                {"name": "main", "groups": ["cpu"], "default": True, "priority_tier": 2},
                {"name": "spare", "groups": ["cpu"], "preempt_mode": mode},
            ],
            "users": [{"name": "ada", "uid": 2001, "account": "vision"}],
            "accounts": [{"name": "vision", "qos": ["low", "high"]}],
            "qos": [{"name": "low"}, {"name": "high", "preempts": list(preempts)}],
        }
    )


@pytest.mark.parametrize(
    ("spec", "fields", "note"),
    [
        (preempting(), {"partition": "spare"}, ""),
        (preempting(mode="requeue"), {}, ""),
        (preempting(mode="requeue"), {"partition": "spare"}, SPARE),
        (preempting(mode="requeue"), {"partition": "spare", "requeue": True}, ""),
        (preempting(mode="cancel"), {"partition": "spare", "requeue": True}, CANCEL),
        (preempting(preempts=("low",)), {}, LOW),
        (preempting(preempts=("low",)), {"requeue": True}, ""),
        (preempting(preempts=("low",)), {"qos": "high"}, ""),
        (preempting(preempts=("low",)), {"qos": "low"}, LOW),
    ],
)
def test_who_may_lose_a_job_to_others_is_noted(
    spec: ClusterSpec, fields: dict[str, Any], note: str
) -> None:
    assert preemption_note(JobSpec(script="a.py", **fields), spec) == note
