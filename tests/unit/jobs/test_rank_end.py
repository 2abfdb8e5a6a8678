"""Samplers of a node leave with the first rank there: one that is left costs the job a second."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import corral
from corral.hosts.quote import Script, join, sh
from corral.jobs import usage
from corral.jobs.batch.script import samplers
from corral.jobs.batch.tracking import Tracking
from corral.jobs.model import JobSpec

SOURCES = Path(corral.__file__).parents[1]
ENOUGH_S = 10.0
"""Less than what samplers wait between two samples."""


def left(folder: Path) -> list[str]:
    """Command lines of processes with that folder in their environment."""
    commands = list[str]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                commands.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return commands


def rank(
    folder: Path, script: Script, *, local: int, until: str, temporary: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """One rank, which ends as soon as that shell test is true."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho 93, 1000, 81559\n")
    (tools / "nvidia-smi").chmod(0o755)
    (tools / "python3").symlink_to(sys.executable)
    (folder / "followed").touch()
    body = join([script, sh("exec sh -c {c}", c=f"until {until}; do sleep 0.05; done")], "")
    return subprocess.run(
        ["sh", "-c", body],
        env={
            "PATH": f"{tools}:/usr/bin:/bin",
            "PYTHONPATH": str(SOURCES),
            "CORRAL_JOB_FOLDER": str(folder),
            "TMPDIR": temporary or str(folder),
            "SLURM_LOCALID": str(local),
            "SLURM_NODEID": "0",
            "MLFLOW_RUN_ID": "1",
            "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
        },
        cwd=folder,
        check=True,
        stderr=subprocess.PIPE,
        timeout=60,
    )


def job(gpus: int) -> JobSpec:
    return JobSpec(command=("true",), nodes=1, gpus_per_node=gpus)


@pytest.mark.parametrize("uri", ["", "http://127.0.0.1:9"])
def test_samplers_leave_with_the_rank(tmp_path: Path, uri: str) -> None:
    script = samplers(job(1), Tracking(uri=uri))
    rank(tmp_path, script, local=0, until="[ -s gpus-0 ]")
    assert (tmp_path / "gpus-0").read_text().endswith(" 93, 1000, 81559;\n")
    end = time.monotonic() + ENOUGH_S
    while there := left(tmp_path):
        assert time.monotonic() < end, there
        time.sleep(0.02)
    assert not list(tmp_path.glob("corral-rank-*"))
    assert ENOUGH_S < usage.EVERY_S


@pytest.mark.parametrize("temporary", ["/nowhere", "/proc"])
def test_a_node_without_the_users_tmpdir_is_sampled(tmp_path: Path, temporary: str) -> None:
    """mkfifo's message was in the user's log, and nothing was sampled."""
    script, until = samplers(job(1), Tracking()), "[ -s gpus-0 ]"
    done = rank(
        tmp_path, script, local=0, until=f"{until} || [ $((n += 1)) -gt 100 ]", temporary=temporary
    )
    assert done.stderr == b""
    assert (tmp_path / "gpus-0").read_text().endswith(" 93, 1000, 81559;\n")


def test_other_ranks_sample_nothing(tmp_path: Path) -> None:
    rank(tmp_path, samplers(job(1), Tracking(uri="http://127.0.0.1:9")), local=1, until="true")
    assert not (tmp_path / "gpus-0").exists()


def test_a_rank_holds_no_pipe_where_nothing_samples() -> None:
    assert not samplers(job(0), Tracking())


def test_variables_of_the_user_stay_as_they_are(tmp_path: Path) -> None:
    """A name that samplers use may be exported to the job."""
    script = samplers(job(1), Tracking())
    body = join([script, sh("exec env")], "")
    names = ("use", "count", "number")
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "CORRAL_JOB_FOLDER": str(tmp_path)}
    env |= {"SLURM_LOCALID": "0", "SLURM_NODEID": "0"} | dict.fromkeys(names, "mine")
    ended = subprocess.run(["sh", "-c", body], env=env, capture_output=True, text=True, check=True)
    assert {f"{name}=mine" for name in names} <= {*ended.stdout.splitlines()}
