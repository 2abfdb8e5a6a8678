"""The end of a budget: one program, which the guard and the elastic driver run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from corral.elastic.driver import wind_down
from tests.wind_down import REASON, ran

LAST = 1345 + 600
DRAIN = f"update nodename=gpu0,gpu1 state=drain reason={REASON}"


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    (tmp_path / "jobs").write_text("")
    (tmp_path / "done").write_text("")
    return tmp_path


def ends(slurm: Path, jobs: str) -> tuple[list[str], list[str]]:
    """What it prints for such jobs, and what it has Slurm change after the drain."""
    (slurm / "jobs").write_text(jobs)
    (slurm / "done").write_text("")
    printed = ran(slurm, "end", "gpu0,gpu1", str(LAST)).splitlines()
    first, *changes = (slurm / "done").read_text().splitlines()
    assert first == DRAIN
    return printed, changes


def test_without_jobs_none_runs(slurm: Path) -> None:
    assert ends(slurm, "") == (["running 0"], [])


def test_a_job_gets_an_end_once(slurm: Path) -> None:
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(LAST))
    words = f"ends at {when}: Slurm sends the signal that it asked for"
    printed, changes = ends(slurm, "7 R 1000 NONE\n8 R 1000 99999\n9 S 1000 NONE\n")
    assert printed == [f"job 7 {words}", f"job 8 {words}", f"job 9 {words}", "running 3"]
    assert changes == [
        f"update jobid={job} {change}"
        for job in (7, 8, 9)
        for change in ("timelimit=17", f"endtime={when}")
    ]
    # Slurm rounds what it was given, by 90 s at most.
    assert ends(slurm, f"7 R 1000 {LAST + 90}\n") == (["running 1"], [])
    printed, changes = ends(slurm, f"70 R 1000 {LAST + 90}\n")
    assert printed[0].startswith("job 70 ends at") and len(changes) == 2


@pytest.mark.parametrize("job", [f"7 R 1000 {LAST}", f"7 R 1000 {LAST + 60}", "7 CG 1000 NONE"])
def test_what_ends_in_time_is_left_alone(slurm: Path, job: str) -> None:
    assert ends(slurm, f"{job}\n") == (["running 1"], [])


def test_a_job_that_cannot_be_changed_stops_no_other(slurm: Path) -> None:
    (slurm / "refused").write_text("jobid=8\n")
    printed, changes = ends(slurm, "7 R N/A NONE\n8 R 1000 NONE\n9 R 1000 NONE\n")
    assert printed[:2] == [
        "job 7 keeps its time: unknown start",
        "job 8 keeps its time: scontrol refused the change",
    ]
    assert printed[2].startswith("job 9 ends at") and printed[3] == "running 3"
    assert [line.split()[1] for line in changes] == ["jobid=8", "jobid=9", "jobid=9"]


@pytest.mark.parametrize("silent", ["scontrol", "squeue"])
def test_silence_is_not_an_empty_queue(slurm: Path, silent: str) -> None:
    """The driver took it for one, and ended machines with jobs on them."""
    (slurm / "refused").write_text("nodename=gpu0,gpu1\n" if silent == "scontrol" else "")
    if silent == "squeue":
        (slurm / "jobs").unlink()
    with pytest.raises(OSError, match="exit status 1"):
        ran(slurm, "end", "gpu0,gpu1", str(LAST))


def test_only_what_it_drained_takes_jobs_again(slurm: Path) -> None:
    line = "NodeName={} State={} Reason={} [root@1]\n"
    rows = [
        *(("gpu1", "IDLE+DRAIN", REASON), ("gpu0", "MIXED+DRAIN", REASON)),
        *(("desk", "IDLE+DRAIN", "bad fan"), ("d2", "IDLE+DRAIN", f"x {REASON}")),
        ("open", "IDLE", REASON),
    ]
    (slurm / "shown").write_text("".join(line.format(*row) for row in rows))
    assert ran(slurm, "back") == "gpu0,gpu1 takes jobs again: the budget was raised\n"
    assert (slurm / "done").read_text() == "update nodename=gpu0,gpu1 state=resume\n"
    (slurm / "shown").write_text("NodeName=desk State=IDLE\n")
    assert ran(slurm, "back") == ""


def test_nodes_that_slurm_powered_off_for_the_guard(slurm: Path) -> None:
    """A state in the text of OS, which the machine sends, is none."""
    line = "NodeName={} Arch=x86_64 OS=Linux {} RealMemory=1 AllocMem=0 State={} ThreadsPerCore=1\n"
    rows = [("gpu0", "6.1", "IDLE+CLOUD+POWERED_DOWN"), ("gpu1", "State=POWERED_DOWN", "MIXED")]
    (slurm / "shown").write_text("".join(line.format(*row) for row in rows))
    assert ran(slurm, "powered-off") == "gpu0\n"


def test_the_driver_runs_the_same_program() -> None:
    script = str(wind_down("gpu[0-1]", 600))
    assert f"reason='\"'\"'{REASON}'\"'\"'" in script
    assert script.endswith("""wind-down end 'gpu[0-1]' "$(($(date +%s) + 600))\"""")
