"""The readers of text and of JSON give the same record for the same node and job."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from corral.doctor.pending_reason import room, why_pending
from corral.slurm.records import Association, Job, Node, Partition
from corral.slurm.rest import read
from corral.slurm.states.jobs import ExitCode
from corral.slurm.states.nodes import NodeState
from corral.slurm.states.reasons import reasons
from corral.slurm.text import (
    HISTORY,
    QUEUE,
    parse_history,
    parse_nodes,
    parse_queue,
    readable_associations,
    readable_history,
    readable_partitions,
    show_associations,
)
from corral.slurm.tres import counts
from corral.web.exposition import families, text_of
from corral.web.slurm.snapshot import Snapshot

RECORDED = Path(__file__).parents[2] / "recorded" / "rest"


def as_scontrol(node: Node) -> str:
    """The line that ``scontrol show node --details --oneliner`` prints (src/api/node_info.c)."""
    free = "N/A" if node.memory_free is None else node.memory_free
    load = "N/A" if node.load is None else f"{node.load:.2f}"
    fields = {
        "NodeName": node.name,
        "CoresPerSocket": f"{node.socket_cores} ",
        "CPUAlloc": node.cpus_used,
        "CPUTot": node.cpus,
        "CPULoad": load,
        "AvailableFeatures": ",".join(node.features) or "(null)",
        "ActiveFeatures": ",".join(node.active_features) or "(null)",
        "Gres": node.gres or "(null)",
        "GresUsed": node.gres_used,
        "NodeAddr": node.address,
        "Version": node.version or "(null)",
        "OS": "Linux 6.1 State=FAKE ",
        "RealMemory": node.memory,
        "AllocMem": node.memory_used,
        "FreeMem": free,
        "Sockets": node.sockets,
        "State": node.state,
        "ThreadsPerCore": node.threads,
        "Partitions": f"{','.join(node.partitions)} ",
        "BootTime": node.boot_at or "None",
        "LastBusyTime": node.busy_at or "Unknown",
        "CfgTRES": node.tres,
        "AllocTRES": node.tres_used,
        "CurrentWatts": node.watts or 0,
    }
    reason = f" Reason={node.reason} [{node.reason_by}@{node.reason_at}]" if node.reason else ""
    return " ".join(f"{key}={value}" for key, value in fields.items()) + reason


@pytest.mark.parametrize("folder", sorted(RECORDED.glob("*/v0.0.*")), ids=lambda p: p.name)
def test_both_readers_give_one_record(folder: Path) -> None:
    body = json.loads((folder / "nodes.json").read_text())["body"]
    nodes = read.nodes_of(body, int(folder.name.rpartition(".")[2])).records
    assert len(nodes) == 4
    for node in nodes:
        (text,) = parse_nodes(as_scontrol(node))
        # slurmrestd gives who and when even where there is no reason
        expected = node if node.reason else replace(node, reason_by="", reason_at=None)
        assert text == replace(expected, architecture="", system="Linux 6.1 State=FAKE")
        assert text.busy_at == node.busy_at


def _or(value: object, none: str) -> str:
    return str(value) if value else none


def as_squeue(job: Job) -> str:
    """The line of ``show_queue`` (src/squeue/print.c)."""
    limit = "UNLIMITED" if job.limit is None else f"{job.limit // 60}:00"
    values = {
        "%i": job.label,
        "%A": job.id,
        "%T": job.state,
        "%r": job.reason or "None",
        "%P": job.partition,
        "%u": job.user,
        "%a": job.account or "(null)",
        "%D": job.node_count,
        "%C": job.cpus,
        "%b": job.gres or "N/A",
        "%M": "0:00",
        "%l": limit,
        "%V": _or(job.submit_at, "N/A"),
        "%S": _or(job.start_at, "N/A"),
        "%N": job.nodes,
        "%j": job.name,
    }
    return "|".join(str(values[column]) for column in QUEUE)


def as_sacct(job: Job) -> str:
    """The line of ``show_history`` (src/sacct/print.c)."""
    code = f"{job.exit_status or 0}:{job.exit_signal}"
    values = {
        "JobID": job.label,
        "JobIDRaw": job.id,
        "State": job.state,
        "ExitCode": code,
        "DerivedExitCode": "0:0",
        "Partition": job.partition,
        "User": job.user,
        "Account": job.account,
        "NNodes": job.node_count,
        "NCPUS": job.cpus,
        "ReqTRES": "cpu=99",
        "AllocTRES": job.tres,
        "ElapsedRaw": job.elapsed,
        "Submit": job.submit_at,
        "Start": _or(job.start_at, "Unknown"),
        "End": _or(job.end_at, "Unknown"),
        "NodeList": job.nodes or "None assigned",
        "JobName": job.name,
    }
    return "|".join(str(values[column]) for column in HISTORY)


@pytest.mark.parametrize("folder", sorted(RECORDED.glob("*/v0.0.*")), ids=lambda p: p.name)
def test_both_readers_give_one_job(folder: Path) -> None:
    body = json.loads((folder / "jobs.json").read_text())["body"]
    jobs = read.jobs_of(body, int(folder.name.rpartition(".")[2])).records
    assert len(jobs) > 4
    for job in jobs:
        (text,) = parse_queue(as_squeue(job))
        same = (
            "id", "label", "name", "user", "state", "reason", "account", "partition", "nodes",
            "node_count", "cpus", "gres", "submit_at", "start_at", "limit", "ended", "waiting",
        )  # fmt: skip
        assert [getattr(text, name) for name in same] == [getattr(job, name) for name in same]
        assert text.gpus is None  # not in squeue's columns


@pytest.mark.parametrize(
    "file", sorted(RECORDED.glob("*/v0.0.*/past.json")), ids=lambda p: p.parts[-2]
)
def test_both_readers_give_one_job_of_accounting(file: Path) -> None:
    body = json.loads(file.read_text())["body"]
    jobs = [job for job in read.listed(body, "jobs", read.past_job, 42).records if job.tres]
    assert len(jobs) > 4
    for job in jobs:
        (text,) = parse_history(as_sacct(job))
        more = {"exit_status": job.exit_status, "exit_signal": job.exit_signal}  # of a running one
        none = {
            "reason": "", "qos": "", "priority": None, "limit": None, "stdout": "", "stderr": "",
            "workdir": "", "comment": "", "restarts": 0,
        }  # fmt: skip
        assert text if job.ended else replace(text, **more) == replace(job, **none)


def test_a_state_of_a_later_release_hides_no_job() -> None:
    """JSON showed such a job; from squeue and sacct, it was an error instead of any job."""
    (known,) = read.jobs_of({"jobs": [{"job_id": 7, "job_state": ["MELTING"]}]}, 42).records
    job = replace(known, label="7", name="x", partition="main", elapsed=0)
    (queued,) = parse_queue(as_squeue(job))
    (past,), unread = readable_history(as_sacct(job))
    assert (known.state, queued.state, past.state, unread) == ("MELTING",) * 3 + (0,)
    assert not (queued.ended or queued.waiting or queued.exit_code)


def test_memory_without_a_unit_is_mebibytes_for_all() -> None:
    """The page read it as bytes, why-pending as MiB (slurm.conf(5), AccountingStorageTRES: MB)."""
    job = {"job_id": 7, "job_state": ["RUNNING"], "tres_alloc_str": "cpu=2,mem=16000,node=1"}
    (known,) = read.jobs_of({"jobs": [job]}, 42).records
    assert known.memory == counts("cpu=2,mem=16000")["mem"] == 16000


@pytest.mark.parametrize(
    ("gres", "gres_used", "tres", "tres_used", "used"),
    [
        ("gpu:h200:8", "gpu:h200:3(IDX:0-2)", "cpu=8", "", 3),
        ("gpu:h200:8", "gpu:h200:0(IDX:N/A)", "cpu=8", "", 0),
        ("gpu:h200:8", "", "cpu=8", "cpu=4", None),  # scontrol without --details
        ("gpu:h200:8", "", "cpu=8,gres/gpu=8", "cpu=4,gres/gpu=2", 2),
        ("gpu:h200:8", "", "cpu=8,gres/gpu=8", "", 0),
        ("", "", "cpu=8", "cpu=4", 0),
    ],
)
def test_gpus_in_use_are_unknown_where_no_field_has_them(
    gres: str, gres_used: str, tres: str, tres_used: str, used: int | None
) -> None:
    node = Node(
        "n1",
        NodeState.parse("IDLE"),
        gres=gres,
        gres_used=gres_used,
        tres=tres,
        tres_used=tres_used,
        cpus=8,
        partitions=("main",),
    )
    assert node.gpus_used == used
    counts = Snapshot().with_nodes([node]).counts()
    assert counts["gpus_used_exact"] == (used is not None)
    text = text_of(families([node], (), ()))
    assert ("corral_node_gpus_used" in text) == (used is not None)
    expected = None if used is None else node.gpus - used
    assert room(node).gpus_free == expected


def test_squeues_start_of_a_job_that_a_limit_holds_back_is_none() -> None:
    job = Job(7, "7", state="PENDING", reason="AssocGrpGRES", start_at=1_800_000_000)
    (held,) = parse_queue(as_squeue(job))
    (pending,) = parse_queue(as_squeue(replace(job, reason="Resources")))
    assert (held.start_at, pending.start_at) == (None, 1_800_000_000)


# As print_partition_info of src/api/partition_info.c orders the fields (24.11).
PARTITION_LINE = (
    "PartitionName={name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL "
    "Default=NO QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO "
    "GraceTime=0 Hidden=NO MaxNodes={most} MaxTime={longest} MinNodes=0 LLN=NO "
    "MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED Nodes=node[0-2] PriorityJobFactor=1 "
    "PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF "
    "State={state} TotalCPUs=12 TotalNodes=3 SelectTypeParameters=NONE JobDefaults=(null) "
    "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=12,mem=12000M,node=3,billing=12"
)


def test_both_readers_give_one_partition() -> None:
    body = json.loads((RECORDED / "26.05" / "v0.0.45" / "partitions.json").read_text())
    (main,) = (p for p in read.partitions_of(body["body"], 45).records if p.name == "main")
    line = PARTITION_LINE.format(name="main", most="UNLIMITED", longest="1-00:00:00", state="UP")
    assert readable_partitions(line) == (main,)


def test_a_partitions_limits_and_what_is_none() -> None:
    line = PARTITION_LINE.format(name="long", most="2", longest="UNLIMITED", state="DRAIN")
    text = f"\nslurm_load_partitions error: x\nPartitionName=odd MaxTime=nonsense\n{line}\n"
    assert readable_partitions(text) == (Partition("long", "DRAIN", "node[0-2]", 3, None, 2),)


def test_associations() -> None:
    assert show_associations("user=ada", columns=("Account", "QOS"))[-2:] == (
        "user=ada",
        "format=Account,QOS",
    )
    lines = "vision||root|5|gres/gpu=1|0|7|high,low|low\nvision|ada||parent||||normal|\n"
    assert readable_associations(f"sacctmgr: error: x\n{lines}") == (
        Association("vision", "", "root", "5", "gres/gpu=1", 0, 7, ("high", "low"), "low"),
        Association("vision", "ada", share="parent", qos=("normal",)),
    )


REASONS = [row.word for row in reasons().words]


@pytest.mark.parametrize("priority", [0, 10])
@pytest.mark.parametrize("reason", ["None", *REASONS])
def test_a_pending_job_is_held_or_not_whoever_reads_it(reason: str, priority: int) -> None:
    """Text, with blanks or not, and JSON: one class and one explanation of a pending job."""
    raw = {
        "job_id": 7,
        "job_state": ["PENDING"],
        "state_reason": reason,
        "priority": {"set": True, "infinite": False, "number": priority},
    }
    listed = read.job(raw, 44)
    for word in (reason, reason.replace("_", " ")):
        (queued,) = parse_queue(f"7|PENDING|{word}|{priority}", columns=("%A", "%T", "%r", "%Q"))
        assert (queued.held, queued.wait, queued.why) == (listed.held, listed.wait, listed.why)
        because = why_pending(queued, "cpu=1", Partition("main"), {})
        assert because.words == (listed.why or "Slurm has not considered it yet")
        assert because.advice.startswith("scontrol release") == listed.held
    named = reason in ("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue")
    failed = reason == "launch_failed_requeued_held"
    assert listed.held == (named or failed or priority == 0)


def test_a_job_that_has_ended_is_not_held() -> None:
    assert not Job(7, state="CANCELLED", reason="JobHeldUser", priority=0).held
    assert Job(7, state="CANCELLED", reason="JobHeldUser", priority=0).why == ""


def test_reasons_are_classified_in_their_table_alone(repo: Path) -> None:
    """A module with two reasons as values is a second list of what the table has."""
    lists: list[str] = []
    for file in sorted((repo / "src/corral").rglob("*.py")):
        texts = [n.value for n in ast.walk(ast.parse(file.read_text())) if type(n) is ast.Constant]
        used = set(REASONS) & {text for text in texts if type(text) is str} - TERMS
        if len(used) > 1:
            lists.append(f"{file.relative_to(repo)}: {', '.join(sorted(used))}")
    assert not lists, lists


TERMS = {"Licenses", "Reservation", "Dependency", "Resources", "TimeLimit", "Priority", "Prolog"}
"""Reasons that are also keys of Slurm's files and fields of its answers."""


def test_a_signal_is_how_a_job_ended_also_without_a_status() -> None:
    """As slurmrestd reports it; scontrol prints 0:53."""
    assert Job(state="FAILED", exit_signal=53).exit_code == ExitCode(0, 53)
    assert Job(state="FAILED").exit_code is None
    assert Job(state="RUNNING", exit_signal=53).exit_code is None
