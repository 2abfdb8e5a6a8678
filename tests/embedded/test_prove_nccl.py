"""multinode.nccl by srun on a real cluster: its job, its program (gloo here) and its verdict.

The nodes have stand-ins for GPUs. Names in the facts and in the program's table take the place of
real ones; job, environment, program, network and comparison are the check's own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.embedded.links import shaped

from corral.api.evidence.proof import rank_setup
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.inspect.facts import Facts
from corral.prove.checks import nccl
from corral.prove.context import ProveContext
from corral.prove.launch import batches
from corral.prove.model import Evidence, Judgement, Verdict
from corral.prove.survey import survey
from corral.spec.models import ClusterSpec

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

GPU = "NVIDIA GeForce RTX 5090"
NAMES = ("node0", "node1", "node2")


def with_gpus(facts: Facts) -> Facts:
    return replace(facts, gpus=tuple(replace(gpu, name=GPU) for gpu in facts.gpus))


def context(cluster: Live, spec: ClusterSpec, fleet: Fleet) -> ProveContext:
    facts = {name: with_gpus(each) for name, each in cluster.facts.items()}
    ctx = ProveContext(spec, fleet, cluster.controller, "corral", facts)
    ctx.rank_setup = partial(rank_setup, spec)
    return ctx


def measured(cluster: Live, **data: object) -> Judgement:
    spec = cluster.spec
    if data:
        network = spec.network.model_validate({"data": data})
        spec = spec.model_copy(update={"network": network})

    async def work(fleet: Fleet) -> Judgement:
        ctx = context(cluster, spec, fleet)
        (batch,) = batches((await survey(ctx)).free)
        gpus = nccl.gpus_of_each(ctx, batch)
        assert (batch.names, gpus) == (NAMES, cluster.spec.groups[0].gpu.count)
        script = nccl.script_of(ctx, batch, gpus)
        result = await ctx.control(nccl.command_of(ctx, script), timeout=300)
        text = result.stdout.replace('"device_info": "cpu"', f'"device_info": "{GPU}"')
        shown = Evidence("node0", "srun", result.stdout)
        return nccl.judge_run(ctx, batch, text, result.stderr, shown)

    return cluster.with_fleet(work)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "_FEW", (1 << 20, 2 << 20))


def test_all_gpus_of_all_nodes_are_in_one_job(cluster: Live) -> None:
    judged = measured(cluster)
    assert judged.verdict is Verdict.PASS, judged
    ranks = 3 * cluster.spec.groups[0].gpu.count
    assert f"over {ranks} GPUs on 3 nodes" in judged.summary
    assert judged.summary.count("nothing is known to compare it with") == 2
    figures = judged.evidence[0].figures
    assert (figures["all_reduce wrong"], figures["all_gather wrong"]) == (0, 0)
    # A container's interface has no device, so its rate is not that of a cable.
    shown = nccl.parse_shown(judged.evidence[0].output)
    assert set(shown) == set(NAMES)
    assert {each.machine((GPU,)).link for each in shown.values()} == {""}


@pytest.mark.slow
def test_a_slow_link_fails_by_the_declared_rate(cluster: Live) -> None:
    with shaped(cluster, "node2", "100mbit"):
        judged = measured(cluster, gbps=1)
    assert judged.verdict is Verdict.FAIL, judged
    assert "of the reference" in judged.summary


@pytest.mark.slow
def test_a_pytorch_without_cuda_is_a_reason_to_skip(cluster: Live) -> None:
    async def work(fleet: Fleet) -> Judgement:
        return await nccl.nccl(context(cluster, cluster.spec, fleet))

    judged = cluster.with_fleet(work)
    assert (judged.verdict, judged.uncovered) == (Verdict.SKIP, ""), judged
    assert "uses no GPU" in judged.summary


def test_one_node_without_pytorch_is_named(cluster: Live) -> None:
    hide = sh(
        "printf '#!/bin/sh\nexit 1\n' >/usr/local/bin/python3 && chmod 755 /usr/local/bin/python3"
    )
    try:
        assert cluster.run("node1", hide).ok
        judged = measured(cluster)
    finally:
        cluster.run("node1", sh("rm -f /usr/local/bin/python3"))
    assert judged.verdict is Verdict.SKIP, judged
    assert judged.summary.startswith("python3 has no PyTorch on node1:")
