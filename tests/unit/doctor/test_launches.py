"""Batch jobs that never began: answers of squeue, ps and a log of 24.11.5."""

from __future__ import annotations

import pytest

from corral.doctor.cluster_diagnosis import diagnose
from corral.doctor.job_steps import launches
from corral.doctor.logs.diagnosis import read
from corral.doctor.machine_report import MachineReport
from corral.doctor.model import Source
from corral.slurm.states.reasons import explain
from tests.unit.doctor.scenes import SILENT, scene, with_answers

CTL, N1 = "node0", "node1"
LOGGED = """\
[2026-11-22T08:50:14.165] error: _rpc_prolog: Error talking to slurmctld: Unexpected missing socket error
[2026-11-22T08:50:14.205] task/affinity: task_p_slurmd_batch_request: task_p_slurmd_batch_request: 16
[2026-11-22T08:50:14.205] error: slurm_send_node_msg: [socket:[15558228]] slurm_bufs_sendto(msg_type=RESPONSE_SLURM_RC) failed: Unexpected missing socket error
[2026-11-22T08:50:14.205] error: Could not confirm batch launch for job 16, aborting request
"""  # noqa: E501 - as they were written
EXTERN = "    559 slurmstepd: [16.extern]"
BOTH = f"{EXTERN}\n    558 slurmstepd: [16.batch]"


def lines(batch: str, steps: str, log: str = "") -> list[tuple[str, tuple[str, ...], str]]:
    changed = scene({CTL: {"batch": batch}, N1: {"steps": steps, "fileslurmd": log}})
    findings = list(launches(changed))
    assert [f.failure.id for f in findings] == [f.failure.id for f in diagnose(changed).findings]
    return [(f.detail, f.nodes, f.evidence[0]) for f in findings]


def test_named_at_once_where_slurmd_reports_it() -> None:
    line = LOGGED.splitlines()[-1]
    assert lines("16|RUNNING|1|node1|0:07|", EXTERN, LOGGED) == [("job 16", (N1,), line)]


def test_named_after_a_minute_where_the_log_is_gone() -> None:
    text = "job 16 counts as running for 1-00:02:03; node1 has 16.extern alone"
    assert lines("16|RUNNING|1|node1|1-00:02:03|", EXTERN) == [("job 16", (N1,), text)]


@pytest.mark.parametrize(
    ("batch", "steps", "log"),
    [
        ("16|RUNNING|1|node1|9:19|", BOTH, LOGGED),  # Slurm began it a second time
        ("16|RUNNING|1|node1|0:19|", EXTERN, ""),  # it is just beginning
        ("16|CONFIGURING|1|node1|9:19|", EXTERN, LOGGED),  # the prolog runs
        ("16|RUNNING|0|node1|9:19|", EXTERN, LOGGED),  # salloc: it has no batch script
        ("16|RUNNING|1|node2|9:19|", EXTERN, LOGGED),  # its script is on another node
        ("116|RUNNING|1|node1|0:19|", EXTERN, LOGGED),  # another job
        ("16|RUNNING|1|node1|9:19|", "", LOGGED),  # no step at all: Slurm sees that on its own
        ("16|RUNNING|1|node1", EXTERN, LOGGED),  # an answer that was cut
        ("16|RUNNING|1|node1|never|", EXTERN, ""),
        ("", EXTERN, LOGGED),
    ],
)
def test_nothing_where_it_may_still_be_healthy(batch: str, steps: str, log: str) -> None:
    assert lines(batch, steps, log) == []


def test_a_node_that_does_not_answer_is_another_failure() -> None:
    base = scene({CTL: {"batch": "16|RUNNING|1|node1|9:19|"}})
    assert list(launches(with_answers(base, MachineReport(N1, {}, error=SILENT)))) == []


def test_a_pasted_log_names_it() -> None:
    (findings,) = read(LOGGED)
    assert findings.failure.id == "F102" and "scontrol requeue" in findings.failure.fix
    assert [f.failure.id for f in read(LOGGED, Source.SLURMD)] == ["F102"]


def test_the_log_alone_accuses_nobody() -> None:
    """Slurm often recovers on its own: what a sick node's log has of it is not a fault."""
    assert (
        diagnose(scene({N1: {"units": "slurmd failed", "logslurmd": LOGGED}}))
        .findings[0]
        .failure.id
        == "F73"
    )


@pytest.mark.parametrize("word", ["launch_failed_requeued_held", "(launch failed requeued held)"])
def test_slurms_own_word_for_what_it_holds(word: str) -> None:
    assert "scontrol release" in explain(word)
