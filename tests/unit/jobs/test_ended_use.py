"""What an ended job used: asked of accounting and metrics, and in words."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corral.api.workload import queue
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.hosts.transport import Result
from corral.inspect.jobs import busy_query, gpu_seconds
from corral.jobs import control
from corral.jobs.follow import Outcome
from corral.jobs.handle import JobHandle
from corral.jobs.usage import EndedUse
from corral.slurm.job_use import JobUse
from corral.slurm.records import Job
from corral.slurm.states.jobs import JobState
from corral.slurm.text import HISTORY
from corral.spec.models import ClusterSpec
from tests import prometheus_tools

REAL_PROMTOOL = prometheus_tools.find("promtool")

HANDLE = JobHandle(12, "train", "ada", "", 1, "node0")
VALUES = {
    "JobID": "12",
    "JobIDRaw": "12",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "NNodes": "1",
    "NCPUS": "4",
    "AllocTRES": "billing=4,cpu=4,gres/gpu=2,mem=8G,node=1",
    "ElapsedRaw": "600",
    "NodeList": "node1",
    "End": "2000",
}
USE = "12|00:38:00|\n12.batch|00:38:00|cpu=00:38:00,mem=2048M\n"


def test_in_words() -> None:
    job = Job(12, "12", cpus=4, memory=8192, gpus=2, elapsed=600)
    assert EndedUse(job, JobUse(2280.0, 1228.8), 492.0).words == (
        "3.8 of 4 CPUs (95 %), 1.2 GiB of 8.0 GiB of memory (15 %), 2 GPUs 41 % busy"
    )
    assert EndedUse(job, JobUse()).words == (
        "CPU time not measured, memory not measured, GPUs not measured"
    )
    small = Job(12, "12", cpus=1, memory=200, elapsed=60)
    words = EndedUse(small, JobUse(3.0, 20.0)).words
    assert words == "0.1 of 1 CPU (5 %), 20 MiB of 200 MiB of memory (10 %)"
    assert EndedUse(small, JobUse(3.0, 20.0)).as_dict() == {
        "elapsed": 60,
        "cpus": 1,
        "memory": 200,
        "gpus": 0,
        "cpu": 0.05,
        "memory_used": 0.1,
        "gpu": None,
    }


SACCT = """#!/bin/sh
# The history of the job in the state that is next in the file, or what it used.
case "$*" in
  *--delimiter=*)
    state=$(head -n 1 "$SITE/states")
    [ "$(wc -l <"$SITE/states")" = 1 ] || sed -i 1d "$SITE/states"
    mark=$(printf '%s\\n' "$@" | sed -n 's/^--delimiter=//p')
    [ -z "$state" ] || sed "s/@STATE@/$state/; s/@MARK@/$mark/g" "$SITE/row"
    ;;
  *) cat "$SITE/use" ;;
esac
"""
PROMTOOL = """#!/bin/sh
printf '%s\\n' "$*" >>"$SITE/asked"
cat "$SITE/busy"
"""


def answer(busy: str, measured: str) -> str:
    """Prometheus' answer about job 12, in seconds."""
    values = (("busy", busy), ("measured", measured))
    return json.dumps(
        [{"metric": {"jobid": "12", "of": of}, "value": [2000, value]} for of, value in values]
    )


class Site(Fleet):
    """A controller whose commands are shell scripts."""

    def __init__(self, folder: Path, *states: str) -> None:
        super().__init__({})
        self.folder = folder
        for name, text in (("sacct", SACCT), ("promtool", PROMTOOL)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        values = {**VALUES, "State": "@STATE@"}
        row = "@MARK@".join(values.get(name, "") for name in HISTORY)
        (folder / "row").write_text(f"{row}\n")
        (folder / "use").write_text(USE)
        (folder / "states").write_text("".join(f"{state}\n" for state in states))
        (folder / "busy").write_text(answer("492", "1200"))

    async def run(self, node: str, script: Script, **_: Any) -> Result:
        assert node == "node0"
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}", "SITE": str(self.folder)}
        done = subprocess.run(
            ["sh", "-c", script], env=env, capture_output=True, text=True, check=False
        )
        return Result(node, done.returncode, done.stdout, done.stderr)

    def used(self, *, prometheus: int | None = 9090) -> EndedUse | None:
        return asyncio.run(control.used(self, HANDLE, cluster="lab", prometheus=prometheus))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        return

    monkeypatch.setattr(asyncio, "sleep", at_once)


def test_an_ended_job(tmp_path: Path) -> None:
    use = Site(tmp_path, "COMPLETED").used()
    assert use is not None
    words = "3.8 of 4 CPUs (95 %), 2.0 GiB of 8.0 GiB of memory (25 %), 2 GPUs 41 % busy"
    assert use.words == words
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert asked.startswith(
        "query instant -o json --time=2000 http://127.0.0.1:9090 label_replace(sum by (jobid)"
    )
    assert 'node=~"node1"' in asked
    assert 'jobid=~"12"}' in asked
    assert "[660s:60s]" in asked


def test_accounting_knows_the_end_later_or_not_at_all(tmp_path: Path) -> None:
    use = Site(tmp_path, "", "RUNNING", "RUNNING", "TIMEOUT").used()
    assert use is not None
    assert use.job.state == "TIMEOUT"
    assert Site(tmp_path, "RUNNING").used() is None
    assert Site(tmp_path, "").used() is None


def test_gpus_that_nobody_measured(tmp_path: Path) -> None:
    site = Site(tmp_path, "COMPLETED")
    without = site.used(prometheus=0)
    assert without is not None
    assert without.words.endswith(", GPUs not measured")
    assert not (tmp_path / "asked").exists()
    elsewhere = site.used(prometheus=None)
    assert elsewhere is not None
    assert elsewhere.words.endswith(", GPUs not known from here"), "unknown is not unmeasured"
    assert not (tmp_path / "asked").exists()
    bad = ("", "[]", "error", '[{"value": [2, "NaN"]}]', '[{"value": 7}]', "{}", "7", "null")
    for text in (*bad, answer("NaN", "1200"), answer("492", "NaN")):
        (tmp_path / "busy").write_text(text)
        use = site.used()
        assert use is not None
        assert use.busy_gpu_s is None, text


@pytest.mark.parametrize(
    ("measured", "known"), [("300", False), ("480", False), ("510", True), ("660", True)]
)
def test_gpus_without_samples_are_unknown_and_not_idle(
    tmp_path: Path, measured: str, known: bool
) -> None:
    """A node for 600 s. Prometheus was down for half of a job at 100 %: that read 50 % busy."""
    site = Site(tmp_path, "COMPLETED")
    (tmp_path / "busy").write_text(answer(measured, measured))
    use = site.used()
    assert use is not None
    assert (use.shares.gpu is not None) == known


def test_a_gpu_without_a_process_is_idle_and_not_unknown(tmp_path: Path) -> None:
    """It has no samples; the job's memory on the node shows that Prometheus was there."""
    site = Site(tmp_path, "COMPLETED")
    (tmp_path / "busy").write_text(answer("600", "600"))
    use = site.used()
    assert use is not None
    assert use.shares.gpu == 0.5


SERIES = {
    'corral_gpu_utilization_ratio{cluster="lab",node="n1",gpu="0"}': "1x20",
    'corral_gpu_utilization_ratio{cluster="lab",node="n1",gpu="1"}': "0x20",
    # Its process is on the first GPU alone; in another cluster is a job of that number.
    'corral_gpu_job{cluster="lab",node="n1",gpu="0",jobid="12"}': "_x5 1x9 stale",
    'corral_gpu_job{cluster="other",node="n1",gpu="1",jobid="12"}': "1x20",
    'corral_job_memory_bytes{cluster="lab",node="n1",jobid="12"}': "_x5 5x9 stale",
    'corral_job_memory_bytes{cluster="lab",node="n1",jobid="13"}': "5x20",
}
"""Samples each minute of job 12, which ran from minute 5 to 15, on one of two nodes."""


@pytest.mark.skipif(
    REAL_PROMTOOL is None, reason=prometheus_tools.missing("promtool") or "promtool"
)
def test_prometheus_counts_busy_and_measured_seconds(tmp_path: Path) -> None:
    """The query itself, by ``promtool``: 10 samples of a minute, of the GPU and of the node."""
    job = Job(12, "12", gpus=2, nodes="n1", elapsed=600, end_at=900)
    query = busy_query([job], "lab", span_s=660, step=60)
    samples = [
        {"labels": f'{{jobid="12", of="{of}"}}', "value": 600} for of in ("busy", "measured")
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in SERIES.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "15m", "exp_samples": samples}],
    }
    (tmp_path / "tests.yml").write_text(json.dumps({"rule_files": [], "tests": [test]}))
    argv = [str(REAL_PROMTOOL), "test", "rules", "tests.yml"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("seconds", "asks"), [(299, False), (300, True)])
def test_a_job_of_few_samples_has_no_figure(seconds: int, asks: bool) -> None:
    job = Job(12, "12", gpus=1, nodes="node1", elapsed=seconds, end_at=2000)
    assert bool(gpu_seconds(job, "lab", 9090).shell) == asks


@pytest.mark.parametrize(("administers", "asked"), [(True, 0), (False, None)])
def test_a_profile_does_not_know_whether_gpus_were_measured(
    monkeypatch: pytest.MonkeyPatch, administers: bool, asked: int | None
) -> None:
    ports: list[int | None] = []

    async def used(*_: Any, prometheus: int | None, **__: Any) -> None:
        ports.append(prometheus)

    monkeypatch.setattr(queue.control, "used", used)
    spec = ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "lab",
            "groups": [{"name": "n", "provider": "embedded", "nodes": "node0"}],
        }
    )
    session: Any = SimpleNamespace(spec=spec, administers=administers, fleet=None)
    outcome = Outcome(12, JobState.COMPLETED)
    asyncio.run(queue.with_use(session, HANDLE, outcome))
    assert ports == [asked]
