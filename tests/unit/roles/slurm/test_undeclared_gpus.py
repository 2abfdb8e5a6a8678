"""A machine with more GPUs than declared: jobs could open those that Slurm does not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.errors import Code, CorralError
from corral.inspect.facts import Gpu
from corral.roles.order import desired_stages
from tests.unit.roles.test_cluster import apart, laptop, site


def gpus(count: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"/dev/nvidia{number}", "H100", 81559) for number in range(count))


def test_more_than_declared_are_refused() -> None:
    """Slurm reports a node with fewer itself, as INVALID."""
    here = site(apart())
    for count in (0, 7, 8):
        facts = {**here.facts, "a1": replace(here.facts["a1"], gpus=gpus(count))}
        desired_stages(replace(here, facts=facts))
    facts = {**here.facts, "a1": replace(here.facts["a1"], gpus=gpus(9))}
    with pytest.raises(CorralError) as error:
        desired_stages(replace(here, facts=facts))
    assert (error.value.code, error.value.node) == (Code.NOT_GOOD, "a1")
    assert error.value.message == (
        "this machine has 9 GPUs, and the file declares 8: Slurm keeps no job from those that it "
        "does not know"
    )
    assert error.value.hint.startswith("gpu: {type: h100, count: 9} in group a; ")


def test_machines_that_the_provider_makes_and_groups_without_gpus_are_not_judged() -> None:
    desired_stages(site(laptop(), gpus=gpus(9)))
    here = site(apart())
    facts = {**here.facts, "b0": replace(here.facts["b0"], gpus=gpus(1))}
    desired_stages(replace(here, facts=facts))
