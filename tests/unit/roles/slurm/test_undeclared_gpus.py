"""A machine with more GPUs than declared: jobs could open those that Slurm does not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.errors import Code, CorralError
from corral.inspect.facts import Gpu
from corral.roles.order import desired_stages
from tests.unit.roles.test_cluster import apart, laptop, site

OUT = (
    "take those that are not for jobs out of the machine, or keep NVIDIA's driver off them from "
    "boot on (driver_override of their PCI device, then unbind)"
)


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
        "this machine has 9 GPUs (9 H100), and the file declares 8: Slurm keeps no job from those "
        "that it does not know"
    )
    assert error.value.hint.startswith("gpu: {type: h100, count: 9} in group a; ")
    assert error.value.hint.endswith(OUT)


@pytest.mark.parametrize(
    ("name", "shown", "hint"),
    [
        (
            "T400",
            "1 T400",
            "gpus: [{type: h100, count: 8}, {type: t400, count: 1}] in group a; a machine unlike "
            f"the others of its group needs a separate group; or {OUT}",
        ),
        ("", "1 that nvidia-smi does not list", OUT),
    ],
)
def test_a_count_is_no_way_out_where_models_differ(name: str, shown: str, hint: str) -> None:
    """A card for the display, or a GPU that fails."""
    here = site(apart())
    there = (*gpus(8), Gpu("/dev/nvidia8", name))
    facts = {**here.facts, "a1": replace(here.facts["a1"], gpus=there)}
    with pytest.raises(CorralError) as error:
        desired_stages(replace(here, facts=facts))
    assert error.value.message.startswith(f"this machine has 9 GPUs (8 H100, {shown}), and the")
    assert error.value.hint == hint


def test_machines_that_the_provider_makes_and_groups_without_gpus_are_not_judged() -> None:
    desired_stages(site(laptop(), gpus=gpus(9)))
    here = site(apart())
    facts = {**here.facts, "b0": replace(here.facts["b0"], gpus=gpus(1))}
    desired_stages(replace(here, facts=facts))
