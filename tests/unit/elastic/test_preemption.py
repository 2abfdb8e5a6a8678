"""What a node does when its cloud takes it back: the program for real, with a simulated clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.elastic.marks import TAKEN_REASON
from tests.preemption import acted, prepared, record

DRAIN = f"scontrol update nodename=gpu0 state=drain reason={TAKEN_REASON}"
DOWN = f"scontrol update nodename=gpu0 state=down reason={TAKEN_REASON}"

RESUME = "scontrol update nodename=gpu0 state=resume"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return prepared(tmp_path / "fake")


def test_a_job_that_asked_for_it_gets_its_signal_and_the_node_goes_when_it_has_left(
    node: Path,
) -> None:
    calls, end = acted(node, "7 corral:signal=USR1 1012\n", 1000)
    assert calls.splitlines() == [DRAIN, "scancel --batch --signal=USR1 7", DOWN]
    assert end == 1012


def test_a_job_that_does_not_leave_is_requeued_before_the_machine_goes(node: Path) -> None:
    calls, end = acted(node, "7 corral:signal=TERM 9999\n", 1000)
    assert calls.splitlines() == [DRAIN, "scancel --batch --signal=TERM 7", DOWN]
    assert end == 1025


@pytest.mark.parametrize(
    "comment", ["(null)", "mine", "corral:signal=", "corral:signal=KILL", "corral:signal=$(reboot)"]
)
def test_no_other_job_gets_a_signal(comment: str, node: Path) -> None:
    calls, _ = acted(node, f"7 {comment} 9999\n", 1000)
    assert "scancel" not in calls


def test_a_slurm_that_does_not_answer_is_not_taken_for_no_jobs(node: Path) -> None:
    (node / "mute").touch()
    calls, end = acted(node, "7 corral:signal=USR1 9999\n", 1000)
    assert calls.splitlines() == [DRAIN, DOWN]
    assert end == 1025


def test_it_polls_until_the_notice(node: Path) -> None:
    (node / "notice").write_text("1100\n")
    calls, end = acted(node, "7 corral:signal=USR1 1110\n", 1000, "watch")
    assert "--signal=USR1 7" in calls
    assert end == 1110
    assert (node / "asked").read_text() == (
        "-s -m 3 -H Metadata-Flavor: Google http://metadata/preempted\n"
    )


@pytest.mark.parametrize("reason", [TAKEN_REASON, "Preempted instance"])
@pytest.mark.parametrize("state", ["IDLE+DRAIN", "IDLE+CLOUD+DRAIN", "DOWN+CLOUD+DRAIN"])
def test_a_machine_that_is_back_is_resumed_once(state: str, reason: str, node: Path) -> None:
    (node / "notice").write_text("1100\n")
    (node / "node").write_text(record(state, reason))
    calls, _ = acted(node, "", 1000, "watch")
    assert calls.splitlines() == [RESUME, DRAIN, DOWN]


def test_a_slurm_that_is_not_up_yet_is_asked_again(node: Path) -> None:
    (node / "notice").write_text("1100\n")
    (node / "slurmctld").write_text("1050\n")
    (node / "node").write_text(record("IDLE+DRAIN", TAKEN_REASON))
    calls, _ = acted(node, "", 1000, "watch")
    assert calls.splitlines() == [RESUME, DRAIN, DOWN]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("IDLE", ""),
        ("IDLE+DRAIN", "a fan is broken"),
        ("IDLE+DRAIN", f"{TAKEN_REASON} (Ada)"),
        ("IDLE+DRAIN", "corral: Xid 79"),
        ("DOWN", TAKEN_REASON),
    ],
)
def test_a_drain_of_another_reason_stays(state: str, reason: str, node: Path) -> None:
    (node / "notice").write_text("1100\n")
    (node / "node").write_text(record(state, reason))
    calls, _ = acted(node, "", 1000, "watch")
    assert calls.splitlines() == [DRAIN, DOWN]


def test_a_machine_that_goes_is_not_resumed(node: Path) -> None:
    (node / "notice").write_text("900\n")
    (node / "node").write_text(record("IDLE+DRAIN", TAKEN_REASON))
    calls, _ = acted(node, "", 1000, "watch")
    assert calls.splitlines() == [DRAIN, DOWN]
