"""Users name their processes and cgroups as they like: root's programs trust no such name."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from corral import agents
from corral.agents.benchmarks.gpu import XID
from corral.apply.roll import STEPS
from corral.inspect.machine import KERNEL_LOG

PROLOG = agents.FOLDER / "prolog"
EPILOG = PROLOG / "epilog.d" / "45-job-gpu-processes"
OWN = "0::/user.slice/user-2000.slice/user@2000.service/app.slice/"
"""What systemd delegates to a user, who makes cgroups of any name there."""
GROUPS = (
    ("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "7"),
    ("0::/system.slice/gpu0_slurmstepd.scope/job_7/step_batch", "7"),
    ("0::/host.slice/box-1/system.slice/slurmstepd.scope/job_7/step_0", "7"),
    ("4:memory:/slurm/uid_2000/job_7/step_0", "7"),
    ("4:memory:/slurm_gpu0/uid_2000/job_7/step_0", "7"),
    (f"{OWN}job_8/x", ""),
    (f"{OWN}slurmstepd.scope/job_8/step_0", ""),
    (f"{OWN}slurm/uid_2000/job_8", ""),
    ("0::/system.slice/job_8.service", ""),
)


def shell(text: str, *, path: Path | None = None) -> str:
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    done = subprocess.run(["/bin/sh", "-c", text], env=env, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


def function(program: Path, name: str) -> str:
    """A shell function of a program."""
    match = re.search(rf"^{name}\(\) \{{.*?^\}}$", program.read_text(), re.MULTILINE | re.DOTALL)
    assert match
    return match[0]


def tool(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(("group", "job"), GROUPS)
def test_a_cgroup_of_a_users_own_is_no_job(tmp_path: Path, group: str, job: str) -> None:
    """The epilog ends what holds the job's GPU and is in no other job; figures name the job."""
    process = tmp_path / "proc" / "71"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(f"{group}\n")
    text = function(EPILOG, "job_of").replace("/proc/", f"{tmp_path}/proc/")
    assert shell(f"{text}\njob_of 71").strip() == job
    tool(
        tmp_path,
        "nvidia-smi",
        "case $1 in *apps*) echo 'GPU-a, 71' ;; *) echo '0, GPU-a, 1, 1, 1, 1, 1' ;; esac",
    )
    env = {"CORRAL_CGROUP": str(tmp_path), "CORRAL_PROC": str(tmp_path / "proc")}
    done = subprocess.run(
        ["sh", agents.FOLDER / "figures.sh"],
        env={**os.environ, **env, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.findall(r'corral_gpu_job\{.*jobid="(\d+)"', done.stdout) == ([job] if job else [])


@pytest.mark.parametrize(("uid", "there"), [("0", True), ("2000", False)])
def test_a_process_that_a_user_calls_slurmstepd_is_no_step(
    tmp_path: Path, uid: str, *, there: bool
) -> None:
    """It kept the epilog from cleaning up after a user, and a roll from ending."""
    process = tmp_path / "proc" / "71"
    process.mkdir(parents=True)
    (process / "cmdline").write_text("slurmstepd: [7.batch]\0")
    tool(tmp_path, "stat", f"echo {uid}")
    tool(tmp_path, "ps", f"echo '  {uid} slurmstepd'")
    text = function(PROLOG / "run.sh", "runs").replace("/proc/", f"{tmp_path}/proc/")
    runs = f"{text}\njobs={tmp_path} uid=2000\nruns 7 && echo yes"
    assert shell(runs, path=tmp_path).strip() == ("yes" if there else "")
    assert shell(f"{STEPS} || echo yes", path=tmp_path).strip() == ("yes" if there else "")


def test_a_message_of_the_kernel_begins_behind_its_time(tmp_path: Path) -> None:
    """A job that crashes in its own file makes the kernel print the file's name."""
    xid = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus."
    tool(tmp_path, "systemd-detect-virt", "exit 1")
    crash = "x[42]: segfault at 0 ip 0 sp 0 error 4 in"
    lines = [
        f"[    5.100000] box kernel: {crash} a",
        f"                             {xid}[7f+1]",
        f"[   15.123456] box kernel: {crash} [1.0] box kernel: {xid}[7f+1]",
        f"[   25.123456] box kernel: {xid}",
        f"[   35.123456] box python3[1]: {xid}",
    ]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n")
    tool(tmp_path, "journalctl", f"cat {tmp_path}/lines")
    messages = shell(str(KERNEL_LOG.shell), path=tmp_path).splitlines()
    assert messages == [lines[2].partition("kernel: ")[2], xid]


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("[    1.5] NVRM: Xid (PCI:0000:01:00): 79, pid=1", "79"),
        ("[    1.5] [  T42] NVRM: Xid (PCI:0000:01:00): 79, pid=1", "79"),
        ("[    1.5] box kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=1", "79"),
        ("[    1.5] x[42]: segfault at 0 error 4 in NVRM: Xid (PCI:0000:01:00): 79, x[7f+1]", ""),
        ("             NVRM: Xid (PCI:0000:01:00): 79, x[7f+1]", ""),
        ("NVRM: Xid (PCI:0000:01:00): 79, x[7f+1]", ""),
    ],
)
def test_the_benchmark_counts_the_drivers_own_messages(line: str, number: str) -> None:
    match = XID.match(line)
    assert (match[2] if match else "") == number


@pytest.mark.parametrize(
    ("group", "there"),
    [("0::/system.slice/slurmd.service", True), (f"{OWN}slurmd.service", False)],
)
def test_a_unit_of_a_users_own_is_no_daemon(tmp_path: Path, group: str, *, there: bool) -> None:
    """A helper that hangs was left alone for as long as such a process ran."""
    process = tmp_path / "proc" / "71"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(f"{group}\n")
    tool(tmp_path, "pgrep", "echo 71")
    text = function(agents.FOLDER / "hung-reconfigure.sh", "left").replace(
        "/proc/", f"{tmp_path}/proc/"
    )
    assert shell(f"{text}\nleft slurmd", path=tmp_path).split() == (["71"] if there else [])
