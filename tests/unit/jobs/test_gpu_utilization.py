"""Texts about GPU use; the real loop next to a rank, with an nvidia-smi of three fields."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.jobs.batch.script import samplers
from corral.jobs.batch.tracking import UNTRACKED
from corral.jobs.model import JobSpec
from corral.jobs.usage import (
    ABSENT,
    QUERY,
    gpus_in_words,
    sample,
)

ONE_GPU = JobSpec(script="train.py", gpus_per_node=1)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ({}, ""),
        ({"a": "97, 20480, 81559;"}, "GPUs 97 % busy, GPU memory at most 20.0 of 80 GiB"),
        (
            {"a": "99, 1024, 81559;98, 1024, 81559;", "b": "97, 1024, 81559;3, 2048, 81559;"},
            "GPUs 74 % busy (least b GPU 1: 3 %), GPU memory at most 2.0 of 80 GiB",
        ),
        ({"a": "0, 512, 24564;1, 0, 24564;"}, "GPUs 0 % busy, GPU memory at most 0.5 of 24 GiB"),
        (
            {"a": "[N/A], 512, 24564;"},
            "GPUs do not report how busy they are, GPU memory at most 0.5 of 24 GiB",
        ),
        ({"a": f"{ABSENT};", "b": "97, 1, 2;"}, "GPU use unknown: no nvidia-smi on the nodes"),
        ({"a": "No devices were found;"}, ""),
        ({"a": ";;,;1,2,3,4;"}, ""),
    ],
)
def test_in_words(nodes: dict[str, str], words: str) -> None:
    assert gpus_in_words(nodes) == words


@pytest.mark.parametrize("there", [True, False])
def test_the_loop_asks_while_somebody_follows(tmp_path: Path, there: bool) -> None:
    """One round of it: its wait for the next one ends the rank that it belongs to.

    Without a driver there is none: whatever is left in the step as its ranks end costs a second.
    """
    programs = {
        "timeout": 'shift; [ "$1" != cat ] || kill -9 "$RANK_PID"; exec "$@"',
    }
    if there:
        programs["nvidia-smi"] = (
            f'[ "$*" = "--query-gpu={QUERY} --format=csv,noheader,nounits" ] || exit 97\n'
            "printf '97, 20480, 81559\\n3, 10, 81559\\n'"
        )
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "followed").touch()
    path = ":".join([str(tmp_path), "/usr/bin", "/bin"])
    rest = "exec tail -f /dev/null" if there else ""
    text = f"export RANK_PID=$$\n{samplers(ONE_GPU, UNTRACKED)}\n{rest}"
    subprocess.run(
        ["/bin/sh", "-c", text],
        env={
            "PATH": path,
            "CORRAL_JOB_FOLDER": str(tmp_path),
            "SLURM_LOCALID": "0",
            "SLURM_NODEID": "4",
        },
        check=False,
        timeout=20,
    )
    host = os.uname().nodename
    sample_text = "97, 20480, 81559;3, 10, 81559;" if there else f"{ABSENT};"
    assert (tmp_path / "gpus-4").read_text() == f"{host} {sample_text}\n"


def test_nobody_pays_who_has_no_gpu_or_is_not_followed(tmp_path: Path) -> None:
    assert sample(JobSpec(script="train.py")) == ""
    for name, text in (("timeout", 'kill -9 "$RANK_PID"'), ("nvidia-smi", "echo 97, 1, 2")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    text = f"export RANK_PID=$$\n{samplers(ONE_GPU, UNTRACKED)}\nexec tail -f /dev/null"
    subprocess.run(
        ["/bin/sh", "-c", text],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "CORRAL_JOB_FOLDER": str(tmp_path),
            "SLURM_LOCALID": "0",
            "SLURM_NODEID": "0",
        },
        check=False,
        timeout=20,
    )
    assert not list(tmp_path.glob("gpus-*"))
