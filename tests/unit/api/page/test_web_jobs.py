"""The script that reads a job's output: of a plain job, of its ranks, of the tasks of an array."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from corral.api.page.web_jobs import Ranks, _follow


def printed(path: Path) -> list[str]:
    script = str(_follow(str(path), follow=False))
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines: list[str] = []
    ranks = Ranks(lines.append)
    for line in ran.stdout.splitlines():
        ranks(line)
    ranks.end()
    return lines


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
    assert printed(log) == [f"0: rank 0 of {name}", f"1: rank 1 of {name}", "batch"]


def test_one_rank_has_no_number_and_empty_lines_stay(hostile_tmp_path: Path) -> None:
    log = made(hostile_tmp_path / "one", 1)
    (log.parent / "job.json").write_text('{"logs": 1}')
    (log.parent / "rank-0.log").write_text("\na\n\n\nb\n\n")
    assert printed(log) == ["batch", "", "a", "", "", "b", ""]
    (log.parent / "rank-1.log").write_text("\nc\n\n==> /etc/rank-7.log <==\nd\n\n")
    (log.parent / "job.json").write_text('{"logs": 2}')
    assert printed(log) == [
        *("0: ", "0: a", "0: ", "0: ", "0: b", "0: "),
        *("1: ", "1: c", "1: ", "1: ==> /etc/rank-7.log <==", "1: d", "1: ", "batch"),
    ]


def test_of_many_ranks_the_end_of_each_is_read(hostile_tmp_path: Path) -> None:
    log = made(hostile_tmp_path / "many", 100)
    (log.parent / "job.json").write_text('{"logs": 100}')
    for rank in range(100):
        (log.parent / f"rank-{rank}.log").write_text(f"{'x' * 99}\n" * 1000)
    lines = printed(log)
    assert len(lines) == 1 + 100 * 40
    assert lines[-2] == f"99: {'x' * 99}"


def test_a_job_of_sbatch_has_its_file_alone(hostile_tmp_path: Path) -> None:
    log = hostile_tmp_path / "slurm-1.out"
    log.write_text("one\n")
    (hostile_tmp_path / "rank-0.log").write_text("somebody else's\n")
    (hostile_tmp_path / "job.json").write_text('{"logs": 1}')
    assert printed(log) == ["one"]
