"""GPUs of two types on a node, one of which jobs share by shards: what Slurm gives, and to whom."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_prove import proof_of

from corral import api
from corral.agents import program
from corral.hosts.quote import sh
from corral.jobs.follow import Outcome, RankLine
from corral.prove.context import as_user
from corral.prove.model import Verdict
from corral.slurm.tres import listed
from corral.spec.models import ClusterSpec, Gpu

BIG, SMALL = Gpu(type="big", count=1, shards=4), Gpu(type="small", count=2)
UP_S = 60
EPERM = 1


def two_types(spec: ClusterSpec) -> ClusterSpec:
    group = spec.groups[0].model_copy(update={"nodes": "node0", "gpu": None, "gpus": (BIG, SMALL)})
    return spec.model_copy(update={"groups": (group,)})


@pytest.fixture(scope="module")
def lab(fresh_cluster: Callable[[ClusterSpec], Live]) -> Iterator[Live]:
    yield fresh_cluster(two_types(named(f"gpus-{os.getpid()}")))


def devices_of(lab: Live, *options: str) -> tuple[dict[str, int], str]:
    """Each device file with the error number of opening it, and CUDA_VISIBLE_DEVICES, in a job."""
    words = ["srun", "-n1", "--mem=50", "--immediate=30", *options]
    perl = sh("perl -e {p}", p=program("proof-devices.pl"))
    probe = f'echo "cuda $CUDA_VISIBLE_DEVICES"; {perl}'
    asked = sh("cd /; {words} sh -c {probe}", words=words, probe=probe)
    done = lab.run(lab.controller, as_user("corral", asked))
    assert done.ok, done.tail
    opened = {path: int(error) for path, error in re.findall(r"@ dev (\S+) (\d+)", done.stdout)}
    (cuda,) = re.findall(r"^cuda (.*)$", done.stdout, re.MULTILINE)
    return opened, cuda


def allowed(opened: dict[str, int]) -> set[str]:
    """A stand-in has no driver: what is let in fails later, with another error than EPERM."""
    assert set(opened) == {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"}
    return {path for path, error in opened.items() if error != EPERM}


def submitted(lab: Live, gres: str) -> str:
    words = ["sbatch", "--parsable", "-n1", "--mem=50", f"--gres={gres}", "-o", "/dev/null"]
    submit = sh("cd /tmp && {words} --wrap 'sleep 3000'", words=words)
    job = lab.run(lab.controller, as_user("corral", submit)).stdout.strip()
    assert job.isdigit()
    return job


def until(lab: Live, job: str, state: str) -> None:
    """Wait for a state and its reason, as ``RUNNING None`` or ``PENDING Resources``."""
    end = time.monotonic() + UP_S
    while True:
        asked = lab.run(lab.controller, sh("squeue -h -j {j} -o '%T %r'", j=job)).stdout.strip()
        if asked == state:
            return
        assert time.monotonic() < end, f"job {job} is {asked}, not {state}"
        time.sleep(0.3)


def test_a_job_gets_the_type_it_asks_for_and_no_other_gpu(lab: Live) -> None:
    assert allowed(devices_of(lab, "--gres=gpu:big:1")[0]) == {"/dev/nvidia0"}
    opened, cuda = devices_of(lab, "--gres=gpu:small:2")
    assert (allowed(opened), cuda) == ({"/dev/nvidia1", "/dev/nvidia2"}, "0,1")
    assert allowed(devices_of(lab)[0]) == set()


def test_jobs_share_a_gpu_by_shards_and_nobody_gets_it_meanwhile(lab: Live) -> None:
    first, second = submitted(lab, "shard:1"), submitted(lab, "shard:1")
    try:
        for job in (first, second):
            until(lab, job, "RUNNING None")
        node = lab.run(lab.controller, sh("scontrol show node node0 -d -o")).stdout
        gres = dict(re.findall(r" (Gres\w*)=(\S+)", node))
        # Slurm gives each shard the type of its GPU.
        assert gres["Gres"] == "gpu:big:1,gpu:small:2,shard:big:4,shard:small:0"
        assert "shard:big:2(2/4)" in gres["GresUsed"]
        entire = submitted(lab, "gpu:big:1")
        until(lab, entire, "PENDING Resources")
        lab.run(lab.controller, sh("scancel {a} {b}", a=first, b=second))
        until(lab, entire, "RUNNING None")
        shard = submitted(lab, "shard:1")
        until(lab, shard, "PENDING Resources")
        lab.run(lab.controller, sh("scancel {a} {b}", a=entire, b=shard))
    finally:
        lab.run(lab.controller, sh("scancel -u corral"))
    opened, cuda = devices_of(lab, "--gres=shard:1")
    assert (allowed(opened), cuda) == ({"/dev/nvidia0"}, "0")
    asked = sh("sacct -X -n -P -j {j} -o AllocTRES", j=first)
    assert "gres/shard=1" in lab.run(lab.controller, asked).stdout


def test_corral_run_asks_for_a_shard(lab: Live) -> None:
    """``corral run -G 0 --sbatch --gres=shard:1``: its ranks have the GPU that is shared."""
    command = ("sh", "-c", 'echo "cuda $CUDA_VISIBLE_DEVICES"')
    fields = {
        "command": command,
        "folder": "none",
        "gpus_per_node": 0,
        "mem": "50M",
        "sbatch": ("--gres=shard:1",),
    }
    lines: list[RankLine] = []
    done = asyncio.run(api.run(lab.spec, api.job_spec(fields), on_line=lines.append))
    assert isinstance(done, Outcome)
    assert done.good, lines
    assert [line.text for line in lines if line.rank == 0] == ["cuda 0"]
    asked = sh("sacct -X -n -P -j {j} -o AllocTRES", j=done.id)
    used = lab.run(lab.controller, asked).stdout
    assert "gres/shard=1" in used
    assert "gres/gpu" not in used


def test_verbs_and_proof_count_gpus_once(lab: Live) -> None:
    status = asyncio.run(api.status(lab.spec))
    (node,) = status.nodes
    assert node.record is not None
    assert (node.record.gpus, listed(node.record.gres)) == (3, 3)
    checks = ("smoke.config", "smoke.registered", "isolation.devices")
    proof = proof_of(lab, checks)
    assert [result.check for result in proof.results] == list(checks)
    for result in proof.results:
        assert result.verdict is Verdict.PASS, result
    assert asyncio.run(api.plan(lab.spec)).empty
