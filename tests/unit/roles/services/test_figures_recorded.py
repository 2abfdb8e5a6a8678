"""Output of a real machine with four busy GPUs: Prometheus metrics and the job's sentence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from corral import agents
from corral.jobs.usage import gpus_in_words

BUSY = Path(__file__).parents[3] / "recorded" / "gpu" / "h200x4-busy"
PROGRAM = agents.FOLDER / "figures.sh"


def test_four_gpus_of_one_job(tmp_path: Path) -> None:
    for line in (BUSY / "cgroups.txt").read_text().splitlines():
        pid, _, group = line.partition(" ")
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "cgroup").write_text(f"{group}\n")
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        f"#!/bin/sh\ncase $1 in *compute-apps*) cat '{BUSY}/apps.csv' ;; "
        f"*) cat '{BUSY}/gpus.csv' ;; esac\n"
    )
    smi.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CORRAL_CGROUP": str(tmp_path),
        "CORRAL_PROC": str(tmp_path / "proc"),
    }
    done = subprocess.run(["sh", PROGRAM], env=env, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    for gpu, name in enumerate("abcd"):
        assert f'corral_gpu_job{{gpu="{gpu}",uuid="GPU-{name}",jobid="20"}} 1' in lines
    assert 'corral_gpu_utilization_ratio{gpu="1",uuid="GPU-b"} 0.92' in lines
    assert 'corral_gpu_memory_used_bytes{gpu="3",uuid="GPU-d"} 9876537344' in lines
    assert 'corral_gpu_watts{gpu="2",uuid="GPU-c"} 682.3' in lines


def test_what_the_health_check_saw_last_is_among_the_metrics(tmp_path: Path) -> None:
    """As health.sh keeps it: verdict, check and words, with tabs between."""
    last = tmp_path / "last"
    last.write_text(
        "ok\thealth.gpus\t8 of 8\nfail\thealth.xid\tXid 79\nwarn\thealth.disk\t/tmp 91 %\n"
        'none\thealth.ib\tno ports\nfail\thealth.a"b\tx\nodd\thealth.spool\tx\n'
    )
    os.utime(last, (1795000000, 1795000000))
    env = {"PATH": os.environ["PATH"], "CORRAL_CGROUP": str(tmp_path), "CORRAL_PROC": str(tmp_path)}
    argv, more = ["sh", PROGRAM], {"CORRAL_HEALTH_RUN": str(tmp_path)}
    done = subprocess.run(argv, env=env | more, capture_output=True, text=True, check=True)
    samples = [line for line in done.stdout.splitlines() if line.startswith("corral_health")]
    assert samples == [
        'corral_health_check{check="gpus"} 0',
        'corral_health_check{check="xid"} 2',
        'corral_health_check{check="disk"} 1',
        'corral_health_check{check="ib"} -1',
        "corral_health_time_seconds 1795000000",
    ]
    gone = {"CORRAL_HEALTH_RUN": str(tmp_path / "none")}
    done = subprocess.run(argv, env=env | gone, capture_output=True, text=True, check=True)
    assert "corral_health" not in done.stdout


def test_who_follows_the_job_reads_words() -> None:
    rows = [line.split(", ") for line in (BUSY / "gpus.csv").read_text().splitlines()]
    sample = "".join(f"{busy}, {used}, {total};" for _, _, busy, used, total, *_ in rows)
    assert gpus_in_words({"gpu0": sample}) == "GPUs 95 % busy, GPU memory at most 9.2 of 140 GiB"
