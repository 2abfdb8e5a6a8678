"""Programs that act on Slurm's lists, run where slurmctld does not answer: they fail.

The status of a pipeline is that of its last command, so `squeue | xargs scancel` succeeds without
a list.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from corral.agents import program

SILENT = 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1'
FAKES = {
    "squeue": 'echo "squeue $*" >>calls; [ -e answers ] || { ' + SILENT + "; }; cat queue",
    "scancel": 'echo "scancel $*" >>calls; [ -e answers ] || { ' + SILENT + "; }; : >queue",
    "scontrol": """\
case "$*" in
ping) echo 'Slurmctld(primary) at head is UP'; exit ;;
esac
echo "scontrol $*" >>calls
[ -e answers ] || exit 1
case "$*" in
*"show node"*) cat nodes ;;
*"show partitions") cat partitions ;;
*"show partition main") cat partitions ;;
esac""",
    "slurmd": "echo slurm 24.11.5",
    "uname": "echo n1",
    "sleep": ":",
}
DRAINED = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=2  CPUAlloc=0 CPUEfctv=2 CPUTot=2 Version=24.11.5 "
    "OS=Linux RealMemory=5845 AllocMem=0 State=IDLE+DRAIN ThreadsPerCore=1 "
    "Reason=corral: rolls [root@2026-11-21T10:00:05]"
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in FAKES.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    for name, text in (
        ("queue", ""),
        ("nodes", f"{DRAINED}\n"),
        ("partitions", "PartitionName=main AllowGroups=ALL\n"),
        ("answers", ""),
        ("calls", ""),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


def ended(machine: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A function of one of the programs, called with these words."""
    text = program(name).replace("/etc/slurm/slurm.conf", f"{machine}/answers")
    (machine / "functions.sh").write_text(text)
    shell = shutil.which("dash") or "sh"
    return subprocess.run(
        [shell, "-uc", '. ./functions.sh; "$@"', "sh", *words],
        cwd=machine,
        env={"PATH": f"{machine}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def calls(machine: Path) -> list[str]:
    return (machine / "calls").read_text().splitlines()


GATES, PROVE, MEMBERS = "gates/slurm.sh", "prove/jobs.sh", "state/members.sh"
LISTED: Sequence[tuple[str, Sequence[str]]] = (
    (GATES, ("jobs_cancel_all", "RUNNING")),
    (PROVE, ("jobs_cancel", "ada", "prove-1")),
    (PROVE, ("jobs_clean", "prove-1", "ada")),
    (MEMBERS, ("resume_all", "corral: rolls")),
    (MEMBERS, ("cluster_quiet", "corral: rolls", "5", "RUNNING")),
    (MEMBERS, ("nodes_resume", "corral: rolls", "n1")),
    (MEMBERS, ("partition_open", "main", "closed")),
)


@pytest.mark.parametrize(("name", "words"), LISTED, ids=[words[0] for _, words in LISTED])
def test_no_answer_is_no_empty_list(machine: Path, name: str, words: Sequence[str]) -> None:
    (machine / "closed").mkdir()
    (machine / "closed/main").touch()
    done = ended(machine, name, *words)
    assert done.returncode == 0, done.stderr
    (machine / "answers").unlink()
    assert ended(machine, name, *words).returncode != 0


def test_a_closed_partition_keeps_its_mark(machine: Path) -> None:
    (machine / "closed").mkdir()
    (machine / "closed/main").touch()
    (machine / "closed/gone").touch()
    (machine / "answers").unlink()
    ended(machine, MEMBERS, "partition_open", "main", "closed")
    assert (machine / "closed/main").exists()
    (machine / "answers").touch()
    assert ended(machine, MEMBERS, "partition_open", "gone", "closed").returncode == 0
    assert not (machine / "closed/gone").exists()
    assert not any("update" in call for call in calls(machine))
    assert ended(machine, MEMBERS, "partition_open", "main", "closed").returncode == 0
    assert "scontrol update PartitionName=main State=UP" in calls(machine)


def test_a_closed_partition_is_opened_by_whom_slurmctld_answers(machine: Path) -> None:
    (machine / "closed").mkdir()
    (machine / "closed/main").touch()
    listed = ended(machine, MEMBERS, "leaving_probe", "leaves", "closed").stdout
    assert listed.splitlines() == ["node n1", "partition main", "closed main"]
    (machine / "nodes").unlink()
    done = ended(machine, MEMBERS, "leaving_probe", "leaves", "closed")
    assert (done.returncode, done.stdout) == (0, "")


def test_nodes_that_are_not_listed_are_not_drained(machine: Path) -> None:
    """Squeue answers again and shows no job, but each node would take one."""
    (machine / "nodes").unlink()
    assert ended(machine, MEMBERS, "cluster_quiet", "corral: rolls", "5", "R").returncode != 0


def test_all_jobs_are_cancelled_once(machine: Path) -> None:
    (machine / "queue").write_text("7\n8\n8\n")
    assert ended(machine, GATES, "jobs_cancel_all", "RUNNING").returncode == 0
    assert [call for call in calls(machine) if call.startswith("scancel")] == ["scancel -- 7 8"]


def test_silent_later_is_not_the_end_of_the_jobs(machine: Path) -> None:
    (machine / "queue").write_text("7\n")
    (machine / "bin/scancel").write_text("#!/bin/sh\nrm answers\n")
    assert ended(machine, GATES, "jobs_cancel_all", "RUNNING").returncode != 0


def test_a_node_that_could_not_be_resumed_is_not_back(machine: Path) -> None:
    """It registered in its version; then slurmctld does not answer."""
    assert ended(machine, GATES, "node_back", "corral: rolls").returncode == 0
    assert "scontrol update NodeName=n1 State=RESUME" in calls(machine)
    text = (machine / "bin/scontrol").read_text()
    first = "[ -e once ] || { : >once; cat nodes; exit; }; [ ! -e gone ] || exit 1; : >gone; "
    (machine / "bin/scontrol").write_text(text.replace("[ -e answers ]", f"{first}[ -e answers ]"))
    (machine / "gone").touch()
    assert ended(machine, GATES, "node_back", "corral: rolls").returncode != 0
