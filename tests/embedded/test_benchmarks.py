"""Benchmarks that need a cluster or podman, each at its smallest size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, needs

REPO = Path(__file__).parents[2]
ALONE = {
    "laptop": (("--repeat", "1", "--turns", "1"), "plan, nothing to do"),
    "many_nodes": (("1",), "1 embedded nodes"),
    "elastic_scale": (("2", "--idle", "2", "--end", "3"), "all powered down, from the job's end"),
    "convergence": (
        ("--nodes", "1", "--rtts", "20", "--repeat", "1", "--engines", "corral"),
        "27 actions on 1 embedded nodes",
    ),
}
ON_A_CLUSTER = {
    "jobs": (
        ("--share", "0.005", "--only", "first,files,follow,sweep"),
        "calls of squeue to slurmctld meanwhile",
    ),
}
# Training with PyTorch: minutes. The unit tests run shaped_links on recorded output.
TRAINING = {
    "jobs": (("--share", "0.01", "--only", "overhead"), "60 iterations of 2 ranks"),
    "shaped_links": (("--rates", "2.5", "--batches", "16"), "from the same link: "),
}


def printed(name: str, *words: str) -> str:
    """What a benchmark prints, in a separate state folder unless it measures a given cluster."""
    argv = [sys.executable, "-m", f"benchmarks.{name}", *words]
    env = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        argv, cwd=REPO, env=env, capture_output=True, text=True, timeout=480, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


@pytest.mark.parametrize("name", ALONE)
def test_it_measures(name: str) -> None:
    if needs():
        pytest.skip(needs())
    words, label = ALONE[name]
    assert label in printed(name, *words)


@pytest.mark.parametrize("name", ON_A_CLUSTER)
def test_it_measures_a_cluster(name: str, cluster: Live) -> None:
    words, label = ON_A_CLUSTER[name]
    assert label in printed(name, cluster.spec.name, *words)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINING)
def test_training(name: str, cluster: Live) -> None:
    words, label = TRAINING[name]
    assert label in printed(name, cluster.spec.name, *words)
