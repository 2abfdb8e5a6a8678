"""Which device files the GPUs of each declared type are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Gpu, Traits
from corral.inspect.gpu import type_of_name
from corral.roles.machine.gpu_devices import as_declared, gpus_of, kinds_of
from corral.roles.order import desired_stages
from corral.spec import models
from corral.spec.models import ClusterSpec, NodeGroup
from tests.unit.roles.test_cluster import apart, site

A100, T4 = "NVIDIA A100-SXM4-80GB", "Tesla T4"


def group(*kinds: tuple[str, int]) -> NodeGroup:
    gpus = tuple(models.Gpu(type=kind, count=count) for kind, count in kinds)
    return NodeGroup(name="g", provider="ssh", nodes="n0", gpus=gpus)


def machine(*names: str, first: int = 0) -> Facts:
    gpus = (Gpu(f"/dev/nvidia{number}", name) for number, name in enumerate(names, first))
    return replace(site(apart()).facts["a1"], gpus=tuple(gpus))


def files(declared: NodeGroup, facts: Facts, traits: Traits | None = None) -> dict[str, str]:
    return {gpu.type: gpu.files for gpu in gpus_of(declared, facts, traits or Traits())}


def test_each_type_has_the_devices_of_its_model() -> None:
    declared = group(("t4", 2), ("a100", 2))
    assert files(declared, machine(A100, T4, A100, T4)) == {
        "t4": "/dev/nvidia1,/dev/nvidia3",
        "a100": "/dev/nvidia0,/dev/nvidia2",
    }
    assert files(declared, machine(A100, A100, T4, T4)) == {
        "t4": "/dev/nvidia[2-3]",
        "a100": "/dev/nvidia[0-1]",
    }


def test_the_longest_type_that_is_a_part_of_the_model_counts() -> None:
    declared = group(("rtx6000", 1), ("rtx6000ada", 1))
    there = machine("NVIDIA RTX 6000 Ada Generation", "Quadro RTX 6000")
    assert files(declared, there) == {"rtx6000": "/dev/nvidia1", "rtx6000ada": "/dev/nvidia0"}


@pytest.mark.parametrize(
    ("kind", "model"),
    [("a10", A100), ("t4", "NVIDIA T400 4GB"), ("h20", "NVIDIA H200"), ("l4", "NVIDIA L40S")],
)
def test_a_type_is_words_of_the_model_and_no_part_of_a_word(kind: str, model: str) -> None:
    """The other card is of the declared type, and comes second."""
    named = {"a10": "NVIDIA A10", "t4": T4, "h20": "NVIDIA H20-3e", "l4": "NVIDIA L4 24GB"}
    declared = group((kind, 1), (type_of_name(model), 1))
    assert files(declared, machine(model, named[kind]))[kind] == "/dev/nvidia1"
    assert kinds_of(group((kind, 1), ("b", 1)), [model, "b"]) is None


@pytest.mark.parametrize("names", [(A100, A100, A100, A100), ("", "", "", ""), ()])
def test_in_the_order_of_the_file_where_no_model_has_the_name(names: tuple[str, ...]) -> None:
    """Own names for equal cards, no driver yet, or a node that does not show its GPUs."""
    declared = group(("big", 1), ("small", 3))
    assert files(declared, machine(*names)) == {
        "big": "/dev/nvidia0",
        "small": "/dev/nvidia[1-3]",
    }
    assert gpus_of(declared, machine(), Traits()) == as_declared(declared)


def test_devices_of_a_container_are_its_own() -> None:
    devices = ("/dev/nvidia4", "/dev/nvidia6", "/dev/nvidia7")
    assert files(group(("a", 1), ("b", 2)), machine(), Traits(gpu_devices=devices)) == {
        "a": "/dev/nvidia4",
        "b": "/dev/nvidia[6-7]",
    }


def mixed(*kinds: tuple[str, int]) -> ClusterSpec:
    spec = apart()
    gpus = group(*kinds).gpus
    groups = tuple(
        each.model_copy(update={"gpu": None, "gpus": gpus}) if each.gpu else each
        for each in spec.groups
    )
    return spec.model_copy(update={"groups": groups})


def test_other_counts_of_declared_types_are_refused() -> None:
    here = site(mixed(("a100", 2), ("t4", 2)))
    right = {**here.facts, "a1": machine(A100, T4, T4, A100)}
    desired_stages(replace(here, facts=right))
    with pytest.raises(CorralError) as error:
        desired_stages(replace(here, facts={**here.facts, "a1": machine(A100, A100, A100, T4)}))
    assert (error.value.code, error.value.node) == (Code.NOT_GOOD, "a1")
    assert error.value.message == (
        f"this machine has 3 {A100}, 1 {T4}, and the file declares 2 a100, 2 t4"
    )
    assert "gpus: [{type: a100, count: 3}, {type: t4, count: 1}] in group a" in error.value.hint


def test_a_gpu_without_a_name_is_not_judged() -> None:
    """Its driver does not list it: what to write in the file is not known."""
    here = site(mixed(("a100", 2), ("t4", 2)))
    desired_stages(replace(here, facts={**here.facts, "a1": machine(A100, A100, T4, "")}))
