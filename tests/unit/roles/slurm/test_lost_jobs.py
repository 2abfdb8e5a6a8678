"""Jobs that began before the machine's boot and have no step there end; no other does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.roles.inventory import Site
from corral.roles.slurm.lost_jobs import NAME, on_nodes, program
from tests.unit.roles.test_cluster import apart, laptop, site

NOW, UP = 2_000_000, 100
BEFORE, AFTER = NOW - UP - 1, NOW - UP + 1
BATCH = "slurmstepd: [7.batch]"


def ran(
    folder: Path,
    queue: str,
    *,
    steps: str = "",
    state: str = "MIXED",
    squeue: str = 'case $* in *%T*) cat {f}/queue;; *) cut -d " " -f 1,4 {f}/queue;; esac',
    slurmd: str = "true",
    scontrol: str = "",
) -> tuple[int, list[str]]:
    """Run the program over such a node; its exit status, and what it had Slurm change."""
    (folder / "queue").write_text(queue)
    (folder / "steps").write_text(steps)
    fakes = {
        "squeue": squeue,
        "date": f"echo {NOW}",
        "ps": f'case $* in *etimes*) echo " {UP}";; *) sed "s/^slurm/    0 &/" {{f}}/steps;; esac',
        "sleep": "mv {f}/later {f}/steps 2>/dev/null; true",
        "systemctl": slurmd,
        "scancel": '[ "$1" = -- ] || exit 1; echo "cancel $2" >>{f}/did',
        "scontrol": scontrol
        or 'case $1 in show) echo "NodeName=node1 State='
        f'{state} Reason=bad fan, slot 3 [root@2026-01-01T00:00:00]";; '
        '*) shift; echo "$*" >>{f}/did;; esac',
    }
    for name, text in fakes.items():
        (folder / name).write_text("#!/bin/sh\n" + text.replace("{f}", str(folder)) + "\n")
        (folder / name).chmod(0o755)
    end = subprocess.run(
        ["/bin/sh", "-c", program(), "sh", "node1"],
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    did = folder / "did"
    return end.returncode, did.read_text().splitlines() if did.exists() else []


DOWN = "nodename=node1 state=down reason=restarted, jobs were lost: 7"
BACK = "nodename=node1 state=resume"


@pytest.mark.parametrize(
    ("queue", "steps"),
    [
        ("", ""),
        (f"7 RUNNING {AFTER}", ""),  # it starts just now
        (f"7 CONFIGURING {BEFORE}", ""),  # the node booted for it
        (f"7 COMPLETING {BEFORE}", ""),
        ("7 RUNNING Unknown", ""),
        (f"7 RUNNING {BEFORE}", BATCH),  # the node's clock was wrong: it lives
        (f"7 SUSPENDED {BEFORE}", "slurmstepd: [7.0]"),
        (f"7 RUNNING {BEFORE}", "slurmstepd: [lab 7.extern]"),
    ],
)
def test_what_is_not_lost_stays(tmp_path: Path, queue: str, steps: str) -> None:
    assert ran(tmp_path, queue, steps=steps) == (0, [])


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_a_lost_job_ends_with_its_node(tmp_path: Path, state: str) -> None:
    steps = "slurmstepd: [17.0]\nslurmstepd: [177.0]"
    done, did = ran(tmp_path, f"7 {state} {BEFORE}\n", steps=steps)
    assert (done, did) == (0, [DOWN, BACK])


def test_a_users_process_of_that_name_is_no_step(tmp_path: Path) -> None:
    done, did = ran(tmp_path, f"7 RUNNING {BEFORE}\n", steps=" 2000 slurmstepd: [7.batch]")
    assert (done, did) == (0, [DOWN, BACK])


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("other", [f"17 RUNNING {BEFORE}", f"70 RUNNING {AFTER}"])
def test_jobs_that_live_next_to_it_go_on(tmp_path: Path, other: str, *, refused: bool) -> None:
    """Taking the node down would end them as well."""
    scontrol = "exit 1" if refused else 'echo "$*" >>{f}/did'
    done, did = ran(
        tmp_path,
        f"7 RUNNING {BEFORE}\n8 RUNNING {BEFORE}\n{other}\n",
        steps="slurmstepd: [17.0]",
        scontrol=scontrol,
    )
    verb = "cancel" if refused else "requeue"
    assert (done, did) == (0, [f"{verb} 7", f"{verb} 8"])


def test_a_lost_task_of_an_array_is_that_task_alone(tmp_path: Path) -> None:
    """The number of an array's last task is that of the array: others may run elsewhere."""
    queue = f"7 RUNNING {BEFORE} 7_4\n9 RUNNING {BEFORE} 7_2\n17 RUNNING {BEFORE} 17\n"
    did = ran(tmp_path, queue, steps="slurmstepd: [17.0]", scontrol='echo "$*" >>{f}/did')
    assert did == (0, ["requeue 7_4", "requeue 7_2"])


def test_a_job_of_several_parts_has_its_number(tmp_path: Path) -> None:
    queue = f"8 RUNNING {BEFORE} 7+1\n17 RUNNING {BEFORE} 17\n"
    did = ran(tmp_path, queue, steps="slurmstepd: [17.0]", scontrol='echo "$*" >>{f}/did')
    assert did == (0, ["requeue 8"])


def test_a_job_whose_step_comes_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "later").write_text(BATCH)
    assert ran(tmp_path, f"7 RUNNING {BEFORE}") == (0, [])


def test_a_drained_node_stays_drained(tmp_path: Path) -> None:
    _, did = ran(tmp_path, f"7 RUNNING {BEFORE}", state="MIXED+DRAIN")
    assert did == [DOWN, BACK, "nodename=node1 state=drain reason=bad fan, slot 3"]


def test_a_comment_is_no_state(tmp_path: Path) -> None:
    """Anybody with operator rights writes one."""
    state = "MIXED ThreadsPerCore=1 Comment=x State=IDLE+DRAIN "
    _, did = ran(tmp_path, f"7 RUNNING {BEFORE}", state=state)
    assert did == [DOWN, BACK]


def test_silence_is_no_answer(tmp_path: Path) -> None:
    """systemd tries again: slurmctld may boot as well."""
    assert ran(tmp_path, "", squeue="exit 1") == (1, [])
    assert ran(tmp_path, "", slurmd="false") == (1, [])


def _nodes(cluster: Site) -> set[str]:
    entries = [
        w
        for s in on_nodes(cluster)
        for w in s.desired
        if any(r.id == f"timer:{NAME}" for r in w.resources)
    ]
    return {node for w in entries for node in w.nodes}


def test_it_is_on_compute_nodes_with_systemd() -> None:
    assert _nodes(site(laptop())) == {"node0", "node1", "node2"}
    assert "ctl" not in _nodes(site(apart()))
    assert _nodes(site(laptop(), systemd=False)) == set()
