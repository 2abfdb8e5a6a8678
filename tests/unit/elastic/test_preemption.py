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
    assert calls.splitlines() == [DRAIN, "scancel --batch --signal=USR1 -- 7", DOWN]
    assert end == 1012


def test_a_job_that_does_not_leave_is_requeued_before_the_machine_goes(node: Path) -> None:
    calls, end = acted(node, "7 corral:signal=TERM 9999\n", 1000)
    assert calls.splitlines() == [DRAIN, "scancel --batch --signal=TERM -- 7", DOWN]
    assert end == 1025


@pytest.mark.parametrize(
    "comment", ["(null)", "mine", "corral:signal=", "corral:signal=KILL", "corral:signal=$(reboot)"]
)
def test_no_other_job_gets_a_signal(comment: str, node: Path) -> None:
    calls, _ = acted(node, f"7 {comment} 9999\n", 1000)
    assert "scancel" not in calls


FORGED = (
    "4711 corral:signal=TERM",
    "--user=bob corral:signal=TERM",
    "-t RUNNING corral:signal=HUP",
)


@pytest.mark.parametrize("own", ["x", "corral:signal=USR1"])
@pytest.mark.parametrize("line", FORGED)
def test_a_comment_of_several_lines_is_one_comment(line: str, own: str, node: Path) -> None:
    """Each line was read as a separate job: root signalled whatever a user wrote there."""
    comment = f"{own}\n{line}".replace(" ", r"\0040").replace("\n", r"\n")
    calls, _ = acted(node, f"7 {comment} 1010\n8 corral:signal=USR2 1010\n", 1000)
    signalled = [call.split() for call in calls.splitlines() if call.startswith("scancel")]
    assert {words[-1] for words in signalled} == {"7", "8"}
    assert all(words[1:-2] == ["--batch", words[2]] for words in signalled)


def test_a_task_of_an_array_gets_its_signal_alone(node: Path) -> None:
    """The number of an array's last task is the array's: the signal went to all of its tasks."""
    jobs = "12:12_3 corral:signal=USR1 1010\n13:12_2 corral:signal=USR1 1010\n"
    calls, _ = acted(node, jobs, 1000)
    assert [call.split()[-1] for call in calls.splitlines()[1:-1]] == ["12_3", "12_2"]


def test_what_is_no_number_is_no_job(node: Path) -> None:
    calls, _ = acted(node, "--user=bob corral:signal=USR1 1010\n", 1000)
    assert "scancel" not in calls


def test_a_slurm_that_does_not_answer_is_not_taken_for_no_jobs(node: Path) -> None:
    (node / "mute").touch()
    calls, end = acted(node, "7 corral:signal=USR1 9999\n", 1000)
    assert calls.splitlines() == [DRAIN, DOWN]
    assert end == 1025


def test_it_polls_until_the_notice(node: Path) -> None:
    (node / "notice").write_text("1100\n")
    calls, end = acted(node, "7 corral:signal=USR1 1110\n", 1000, "watch")
    assert "--signal=USR1 -- 7" in calls
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
