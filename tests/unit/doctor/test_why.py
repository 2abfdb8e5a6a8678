"""Why a node is out and why a job is pending, in words; what may be resumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.cluster_diagnosis import causes, diagnose
from corral.doctor.drain_reason import (
    fixed_by_plan,
    node_of,
    of_nodes,
    resumable,
    why_drained,
)
from corral.doctor.model import Diagnosis, Report
from corral.doctor.pending_reason import QUEUE_COLUMNS, queue_ahead, why_pending
from corral.errors import Code, CorralError
from corral.inspect.jobs import pending_in
from corral.slurm.records import Job, Node, Partition
from corral.slurm.states.jobs import JobState
from corral.slurm.text import parse_nodes
from corral.slurm.tres import counts
from tests.unit.doctor.scenes import NAMES, node_line, scene

PARTITION = Partition("main")


def node(state: str = "IDLE", reason: str = "", by: str = "slurm", name: str = "node1") -> Node:
    line = node_line(name, state, reason).replace("[slurm@", f"[{by}@")
    return parse_nodes(line)[0]


@pytest.mark.parametrize(
    ("info", "means", "does"),
    [
        (node("IDLE+DRAIN", "new memory", "ann"), "ann wrote it", "corral resume node1"),
        (node("IDLE+DRAIN", "corral: upgrade of Slurm", "root"), "Corral drained it", "corral up"),
        (
            node("IDLE+DRAIN", "leaves the cluster", "root"),
            "the cluster file does not have it",
            "corral up",
        ),
        (node("DOWN", "Node unexpectedly rebooted"), "rebooted", "last -x"),
        (
            node("IDLE+DRAIN", "health.disk: / has 1 MiB left"),
            "a local disk is full",
            "automatically",
        ),
        (node("IDLE+DRAIN", "NHC: check_fs_free"), "health check", "fix what"),
        (
            node("IDLE+DRAIN", "proof.cpu_mb_s: cpu_mb_s is 71, its peers have 430", "root"),
            "measured too slow twice",
            "corral-proof-round",
        ),
        (node("IDLE+DRAIN", "Prolog error"), "the prolog fails", "by hand"),
        (node("IDLE+DRAIN"), "no reason was given", "slurmctld.log"),
        (node("DOWN"), "no reason", "corral up"),
    ],
)
def test_a_reason_in_words(info: Node, means: str, does: str) -> None:
    why = why_drained(info, Report())
    assert not why.usable
    assert means in why.meaning
    assert does in why.advice
    assert why.as_dict()["node"] == "node1"
    assert why.words


def test_who_and_when_are_reported() -> None:
    why = why_drained(node("IDLE+DRAIN", "new memory", "ann"), Report())
    assert (why.reason, why.by, why.at) == ("new memory", "ann", "2026-11-21T07:00:00")
    assert "takes no new jobs" in why.words


def test_a_node_that_takes_jobs_is_reported_so() -> None:
    why = why_drained(node(), Report())
    assert why.usable
    assert why.meaning == "nothing keeps it from taking jobs"
    assert why.advice == ""


def test_own_findings_come_along_and_others_do_not() -> None:
    known = Report(
        (
            Diagnosis(catalog()["F67"], ("node1",), ("x",)),
            Diagnosis(catalog()["F67"], ("node2",), ("y",)),
            Diagnosis(catalog()["F38"], (), ("z",)),
        )
    )
    why = why_drained(node(), known)
    assert [f.failure.id for f in why.findings] == ["F67", "F38"]
    assert not why.usable
    assert of_nodes(known, {"node2"}).findings == known.findings[1:]


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (node("DOWN", "Node unexpectedly rebooted"), True),
        (node("DOWN", "Not responding"), True),
        (node("IDLE+DRAIN", "gres/gpu count reported lower than configured (1 < 2)"), True),
        (node("IDLE+DRAIN", "Node unexpectedly rebooted", "ann"), False),
        (node("IDLE+DRAIN", "new memory", "root"), False),
        (node("IDLE+DRAIN", "Prolog error"), False),
        (node("IDLE+DRAIN", "Kill task failed"), False),
        (node("IDLE+DRAIN", "corral: upgrade of Slurm", "root"), False),
        (node("IDLE+DRAIN+INVALID_REG", "Low RealMemory (reported:1 < 100% of 9)"), False),
        (node("DOWN+NOT_RESPONDING", "Not responding"), False),
        (node("IDLE+DRAIN"), False),
        (node(), False),
    ],
)
def test_only_what_slurm_took_out_for_a_cause_that_is_gone_is_resumed(
    info: Node, expected: bool
) -> None:
    assert resumable(info, []) is expected
    assert not resumable(info, [Diagnosis(catalog()["F67"], ("node1",), ("x",))])
    assert resumable(info, [Diagnosis(catalog()["F67"], ("node2",), ("x",))]) is expected


def test_the_reason_alone_is_no_cause() -> None:
    line = node_line("node1", "DOWN", "Node unexpectedly rebooted")
    seen = scene({"node0": {"nodes": "\n".join([node_line("node0"), line, node_line("node2")])}})
    assert not diagnose(seen).healthy
    assert causes(seen) == []
    assert resumable(seen.known["node1"], causes(seen))


def test_what_the_plan_fixes() -> None:
    assert fixed_by_plan(Report((Diagnosis(catalog()["F73"]),)))
    assert not fixed_by_plan(Report((Diagnosis(catalog()["F39"]), Diagnosis(catalog()["F67"]))))


def test_a_node_that_slurm_does_not_know_is_an_error() -> None:
    assert node_of({"node1": node()}, "node1").name == "node1"
    for nodes in ({"node1": node()}, {}):
        with pytest.raises(CorralError) as caught:
            node_of(nodes, "node9")
        assert caught.value.code is Code.NOT_FOUND


# jobs


def job(reason: str = "Resources", nodes: int = 1, **more: object) -> Job:
    fields: dict[str, object] = {
        **dict(id=7, label="7", state=JobState.PENDING, name="x", partition="main"),
        **dict(user="ann", node_count=nodes, cpus=1, submit_at=1, reason=reason, limit=3600),
        **more,
    }
    return Job(**fields)  # type: ignore[arg-type]


def cluster(**lines: str) -> dict[str, Node]:
    """Three nodes; ``node1="AllocTRES=..."`` changes one."""
    known: dict[str, Node] = {}
    for name in NAMES:
        line = node_line(name)
        if name in lines:
            line = line.replace("AllocTRES= ", f"AllocTRES={lines[name]} ")
        known[name] = parse_nodes(line)[0]
    return known


ASKED = "cpu=1,mem=100M,node=1,billing=1,gres/gpu=2"


def test_gpus_in_use_are_reported() -> None:
    busy = cluster(**dict.fromkeys(NAMES, "cpu=1,gres/gpu=1"))
    why = why_pending(job(), ASKED, PARTITION, busy)
    assert why.words.startswith("it is next")
    assert why.missing == ("GPUs: it asks for 2 on a node; free now: node0 1, node1 1, node2 1",)
    assert not why.stuck
    assert "it starts when" in why.advice


def test_what_is_free_is_not_missing() -> None:
    assert why_pending(job("Priority"), ASKED, PARTITION, cluster()).missing == ()


@pytest.mark.parametrize(
    ("asked", "nodes", "expected"),
    [
        ("cpu=1,node=1,gres/gpu=3", 1, "3 GPUs on a node; 0 have that many at all"),
        ("cpu=1,mem=8G,node=1", 1, "8192 MiB memory"),
        ("cpu=64,node=1", 1, "64 CPUs"),
        ("cpu=4,node=4", 4, "it asks for 4 nodes; its partition has 3, of which 3 take jobs"),
    ],
)
def test_what_no_node_has_is_stuck(asked: str, nodes: int, expected: str) -> None:
    why = why_pending(job("Resources", nodes), asked, PARTITION, cluster())
    assert any(expected in line for line in why.missing), why.missing
    assert why.stuck
    assert "corral cancel 7" in why.advice


def test_nodes_that_are_out_are_named_with_their_reason() -> None:
    nodes = {**cluster(), "node1": node("IDLE+DRAIN", "new memory", "ann")}
    why = why_pending(
        job("ReqNodeNotAvail, UnavailableNodes:node1", 3), "cpu=3,node=3", PARTITION, nodes
    )
    assert "node1 takes no jobs: new memory" in why.missing
    assert why.advice == "corral doctor --why-drained node1"
    assert not why.stuck


@pytest.mark.parametrize("reason", ["BeginTime", "Dependency", "JobHeldUser"])
def test_a_node_that_is_out_is_not_why_a_job_waits_for_something_else(reason: str) -> None:
    nodes = {**cluster(), "node1": node("IDLE+DRAIN", "new memory", "ann")}
    why = why_pending(job(reason), "cpu=1,node=1", PARTITION, nodes)
    assert why.missing == ()
    assert "why-drained" not in why.advice
    large = why_pending(job(reason), "cpu=64,node=1", PARTITION, nodes)
    assert any("64 CPUs" in line for line in large.missing)  # it would wait for ever all the same


@pytest.mark.parametrize("between", [" ", "_"])
def test_slurms_sentence_is_one_reason(between: str) -> None:
    text = (
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions"
    )
    nodes = {**cluster(), "node1": node("IDLE+DRAIN", "new memory", "ann")}
    why = why_pending(job(text.replace(" ", between), 3), "cpu=3,node=3", PARTITION, nodes)
    assert (
        why.words == "nodes it needs are down, drained, or kept for partitions of higher priority"
    )
    assert why.advice == "corral doctor --why-drained node1"


def test_limits_of_the_partition_are_reported() -> None:
    short = replace(PARTITION, max_time=1800, max_nodes=1, state="DOWN")
    why = why_pending(job("PartitionTimeLimit", 2), "cpu=2,node=2", short, cluster())
    assert why.stuck
    assert set(why.missing) >= {
        "partition main is down",
        "it asks for 2 nodes; partition main allows 1",
        "it asks for 60 minutes; partition main allows 30",
    }
    endless = why_pending(job("x", limit=None), "cpu=1", short, cluster())
    assert "it asks for no time limit; partition main allows 30" in endless.missing


def test_a_held_job_is_released_by_hand() -> None:
    why = why_pending(job("JobHeldUser"), ASKED, PARTITION, cluster())
    assert (why.stuck, why.advice) == (True, "scontrol release 7")


@pytest.mark.parametrize(("state", "word"), [("RUNNING", "is running"), ("COMPLETED", "ended")])
def test_a_job_that_does_not_wait(state: str, word: str) -> None:
    why = why_pending(job("", state=JobState[state]), ASKED, PARTITION, cluster())
    assert word in why.words
    assert not why.stuck
    assert why.as_dict()["state"] == state


def test_jobs_before_it_are_counted() -> None:
    pending = pending_in("main", QUEUE_COLUMNS)
    answer = "7|100\n8|200\n9|50\nodd line\n10|200"
    assert queue_ahead(7, pending.read({pending.name: answer})) == 2
    assert queue_ahead(7, ()) == 0


def test_resources_are_read() -> None:
    text = "cpu=2,mem=1.50G,node=1,billing=2,gres/gpu=2,gres/gpu:a100=2,x=y"
    assert counts(text)["mem"] == 1536
    assert counts(text)["gres/gpu"] == 2
    assert "x" not in counts(text)
