"""The shell of concurrency.slots: as long as needed, and no longer."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from corral.hosts.transport import Result
from corral.prove.checks import slots
from corral.prove.launch import Batch
from tests.unit.prove.surveys import slurm_node, survey_of

# Seven seconds pass with each reading of the clock; USR1 ends what runs; then the last one runs.
FAKES = {
    "date": "n=$(($(cat t 2>/dev/null || echo 0) + 7)); echo $n >t; echo $n",
    "sbatch": "echo 1 >>jobs",
    "scancel": "echo $* >>cancelled",
    "sleep": ":",
    "squeue": """case "$*" in
  *'%j of %u'*) ;;
  *'-t all'*) cat all ;;
  *) [ "$(grep -c USR1 cancelled 2>/dev/null || :)" -ge 1 ] 2>/dev/null || cat now ;;
esac""",
}


def row(job: int, state: str, reason: str = "None") -> str:
    return f"{job}|{state}|{reason}|{job}|{job + 9}|a\n"


@pytest.mark.parametrize(
    ("now", "records", "problem"),
    [
        ([row(1, "RUNNING"), row(2, "RUNNING"), row(3, "PENDING", "Resources")], True, ""),
        ([row(1, "RUNNING"), row(2, "PENDING", "Resources")], False, "1 of 2 jobs ran at once"),
        ([row(n, "RUNNING") for n in (1, 2, 3)], False, "3 jobs ran at once"),
        # Seen with 23.11.4 without accounting; with it, such a job never starts.
        (
            [row(1, "RUNNING"), row(2, "RUNNING"), row(3, "PENDING", "InvalidAccount")],
            True,
            "no-db",
        ),
        # Its prolog still runs: Slurm reports RUNNING, and the records decide as they always did.
        ([row(1, "RUNNING"), row(2, "RUNNING", "Prolog")], True, "0 jobs waited on a, not one"),
    ],
)
def test_too_many_or_too_few_is_the_verdict_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: list[str], records: bool, problem: str
) -> None:
    """It went on to wait for the records, for up to 20 s more."""
    for name, text in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "now").write_text("".join(now))
    ended = [row(1, "COMPLETED"), row(2, "COMPLETED"), row(20, "COMPLETED")]
    (tmp_path / "all").write_text("".join(ended).replace("20|COM", "3|COM"))

    class Here:
        job_name = "corral-prove-x"
        user = "corral"
        slack = 0.0

        async def control(self, script: str, *, timeout: float) -> Result:
            env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
            done = subprocess.run(
                ["sh", "-c", script],
                env=env,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            )
            return Result("node0", done.returncode, done.stdout, done.stderr)

    monkeypatch.setattr(slots, "as_user", lambda user, script: script)
    planned = slots.Slots(Batch("main", (slurm_node("a"),), gpu=False), 2, 1, 0)
    here: Any = Here()
    waits = slots.WAITS | slots.NO_DATABASE if problem == "no-db" else slots.WAITS
    answer = asyncio.run(slots._run(here, survey_of(), 0, planned, waits))
    assert answer.unwatched == ""
    snapshot = answer.snapshot
    assert bool(answer.records) is records
    done = answer.records
    if problem == "no-db":
        (message,) = slots.judge_slots(planned, snapshot, done)
        assert "job 3 waits for InvalidAccount, not for resources" in message
        problem = ""
    problems = slots.judge_slots(planned, snapshot, done, waits)
    assert bool(problems) is bool(problem), problems
    assert problem in "; ".join(problems)
    assert (tmp_path / "jobs").read_text().count("1") == 3
    assert "-Q -n corral-prove-x-slots0" in (tmp_path / "cancelled").read_text()
