"""Workflow tools run unchanged: Hydra by submitit, parsl, Snakemake by slurm, wandb offline.

As in test_tools.py, from one environment on shared storage (workflow_tools.lock). Two packages that
have no wheel are unpacked from their source, by digest.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.embedded.test_tools import Run, install_or_skip, runner

from corral.hosts.quote import sh
from corral.roles.services.corral_wheels import parse_lock
from corral.state.pyenv import PythonEnv

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
WHEELS = parse_lock((HERE / "workflow_tools.lock").read_text())["3.13"]
PLACE: Final = "/shared/test-workflow-tools"
PACKAGES: Final = f"{PLACE}/lib/python3.13/site-packages"
SOURCES: Final = (
    (
        "antlr4-python3-runtime==4.9.3",
        "f224469b4168294902bb1efa80a8bf7855f24c99aef99cbefc1bcd3cce77881b",
        "src/antlr4",
    ),
    (
        "connection-pool==0.0.3",
        "bf429e7aef65921c69b4ed48f3d48d3eac1383b05d2df91884705842d974d0dc",
        "connection_pool",
    ),
)
"""Package, digest of its source, and the folder in it that is imported."""

HYDRA = """\
import os, socket
import hydra
from pathlib import Path
@hydra.main(version_base=None, config_path=None)
def main(config):
    job = os.environ["SLURM_JOB_ID"], os.environ["SLURM_JOB_PARTITION"]
    Path(f"/shared/test-tools-hydra/{config.x}").write_text(" ".join(job) + "\\n")
    return config.x
main()
"""
PARSL = """\
import parsl, sys
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider
provider = SlurmProvider(
    partition="main", nodes_per_block=2, init_blocks=1, max_blocks=1, walltime="00:05:00",
    exclusive=False, launcher=SrunLauncher(), worker_init="export PATH=%s:$PATH" % sys.argv[1],
    scheduler_options="#SBATCH --mem=600M")
executor = HighThroughputExecutor(label="htex", max_workers_per_node=1, provider=provider)
@parsl.python_app
def where(n):
    import os, socket, time
    time.sleep(3)
    return socket.gethostname(), n * n, os.environ["SLURM_JOB_NAME"].startswith("parsl")
with parsl.load(Config(executors=[executor])):
    rows = [future.result(timeout=240) for future in [where(n) for n in range(6)]]
print(sum(square for _, square, _ in rows), len({host for host, _, _ in rows}),
      all(job for _, _, job in rows))
"""
SNAKEFILE = """\
rule all:
    input: "sum"
rule part:
    output: "part{n}"
    shell: "echo $SLURM_JOB_ID > {output}"
rule sum:
    input: expand("part{n}", n=[1, 2])
    output: "sum"
    shell: "cat {input} > {output}; echo $SLURM_JOB_ID >> {output}"
"""
WANDB = """\
import os, wandb
with wandb.init(project="p", mode="offline", dir=".") as run:
    for step in range(3):
        run.log({"loss": 1.0 / (step + 1)})
    run.summary["job"] = os.environ["SLURM_JOB_ID"]
"""


def source(requirement: str, digest: str, folder: Path) -> bytes:
    """The archive of a package's source, by this machine's pip; skips without one."""
    (folder / "in").write_text(f"{requirement} --hash=sha256:{digest}\n")
    options = ("--no-deps", "--no-binary", ":all:", "--require-hashes", "-d", str(folder))
    argv = [sys.executable, "-m", "pip", "download", "-q", *options, "-r", str(folder / "in")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    files = list(folder.glob("*.tar.gz"))
    if done.returncode or not files:
        pytest.skip(f"no source of {requirement}: {done.stderr[-300:]}")
    return files[0].read_bytes()


@pytest.fixture(scope="module")
def tools(cluster: Live, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program's text as the job user with these tools on its PATH."""
    install_or_skip(cluster, PythonEnv(PLACE, "workflow tools", WHEELS))
    for number, (requirement, digest, part) in enumerate(SOURCES):
        archive = source(requirement, digest, tmp_path_factory.mktemp(f"source{number}"))
        unpack = sh(
            "tar -xz -C {to} --wildcards --strip-components={depth} '*/'{part}",
            to=PACKAGES,
            depth=part.count("/") + 1,
            part=part,
        )
        done = cluster.run(cluster.controller, unpack, stdin=archive)
        assert done.ok, done.tail
    return runner(cluster, PLACE)


def accounted(cluster: Live, job: str) -> str:
    """User, partition and end of a job, or of all parts of an array, as accounting has them."""
    wait = sh(
        "timeout 60 sh -c 'until sacct -nXPj {job} -o User,Partition,State | sort -u | "
        "grep COMPLETED; do sleep 0.5; done'",
        job=int(job),
    )
    return cluster.run(cluster.controller, wait, timeout=90).stdout.strip()


def test_hydra_submits_a_sweep_by_submitit(tools: Run, cluster: Live) -> None:
    launcher = ("partition=main", "timeout_min=5", "cpus_per_task=1", "mem_gb=1", "nodes=1")
    words = [f"hydra.launcher.{setting}" for setting in launcher]
    command = ("python3", "-W", "ignore", "use.py", "-m", "hydra/launcher=submitit_slurm", *words)
    run = f"{shlex.join((*command, '+x=1,2'))} >&2 && cat 1 2"
    done = tools("hydra", "sh", "-c", run, files={"use.py": HYDRA})
    assert done.ok, done.tail
    rows = [line.split() for line in done.stdout.splitlines()]
    jobs = {job for job, _ in rows}
    assert len(jobs) == 2
    assert {partition for _, partition in rows} == {"main"}
    assert {accounted(cluster, job) for job in jobs} == {"corral|main|COMPLETED"}


def test_parsl_runs_apps_in_a_block_of_two_nodes(tools: Run) -> None:
    command = ("python3", "-W", "ignore", "use.py", f"{PLACE}/bin")
    done = tools("parsl", *command, files={"use.py": PARSL}, timeout=400)
    assert done.stdout.split() == ["55", "2", "True"], done.tail


def test_snakemake_submits_each_rule(tools: Run, cluster: Live) -> None:
    resources = ("slurm_partition=main", "runtime=5", "mem_mb=200", "cpus_per_task=1")
    polls = "--slurm-init-seconds-before-status-checks 5"
    options = f"--executor slurm {polls} --jobs 3 --latency-wait 60 --default-resources"
    run = f"snakemake {options} {' '.join(resources)} >&2 && cat sum"
    done = tools("snakemake", "sh", "-c", run, files={"Snakefile": SNAKEFILE}, timeout=400)
    assert done.ok, done.tail
    jobs = done.stdout.split()
    assert len(set(jobs)) == 3
    assert {accounted(cluster, job) for job in jobs} == {"corral|main|COMPLETED"}


def test_wandb_offline_keeps_a_run_of_a_job(tools: Run) -> None:
    job = f"#!/bin/sh\n#SBATCH --output=out --mem=600M\nexec {PLACE}/bin/python3 use.py\n"
    run = "sbatch --parsable --wait job.sh; cat out; wc -c <$(ls wandb/offline-run-*/*.wandb)"
    done = tools("wandb", "sh", "-c", run, files={"use.py": WANDB, "job.sh": job})
    assert done.ok, done.tail
    number, *printed, size = done.stdout.splitlines()
    summary = [line.removeprefix("wandb:").split() for line in printed]
    assert ["job", number] in summary, done.tail
    assert ["loss", "0.33333"] in summary
    assert int(size) > 100
