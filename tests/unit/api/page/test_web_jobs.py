"""The script that reads a job's output: of a plain job, of its ranks, of the tasks of an array."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from corral.api.page.web_jobs import _follow


def printed(path: Path) -> list[str]:
    script = str(_follow(str(path), follow=False))
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


def made(folder: Path, ranks: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "batch.log").write_text("batch\n")
    for rank in range(ranks):
        (folder / f"rank-{rank}.log").write_text(f"rank {rank} of {folder.name}\n")
    return folder / "batch.log"


@pytest.mark.parametrize("name", ["plain", "task-7"])
def test_ranks_of_a_job_are_read_next_to_its_batch_log(hostile_tmp_path: Path, name: str) -> None:
    log = made(hostile_tmp_path / name, 2)
    about = hostile_tmp_path / ("plain" if name == "plain" else ".") / "job.json"
    about.write_text(json.dumps({"logs": 2, "array": []}))
    assert printed(log) == ["batch", f"rank 0 of {name}", f"rank 1 of {name}"]


def test_a_job_of_sbatch_has_its_file_alone(hostile_tmp_path: Path) -> None:
    log = hostile_tmp_path / "slurm-1.out"
    log.write_text("one\n")
    (hostile_tmp_path / "rank-0.log").write_text("somebody else's\n")
    (hostile_tmp_path / "job.json").write_text('{"logs": 1}')
    assert printed(log) == ["one"]
