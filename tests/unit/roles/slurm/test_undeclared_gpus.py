"""A machine with more GPUs than declared: no job gets those, or the plan refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from corral.errors import Code, CorralError
from corral.inspect.facts import Gpu
from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.spec import models
from corral.state.files import File
from tests.unit.roles.test_cluster import apart, laptop, site

OUT = (
    "take those that are not for jobs out of the machine, or keep NVIDIA's driver off them from "
    "boot on (driver_override of their PCI device, then unbind)"
)
HINT = (
    "gpu: {type: h100, count: 9} in group a; a machine unlike the others of its group needs a "
    f"separate group; or {OUT}"
)


def gpus(count: int, *others: str) -> tuple[Gpu, ...]:
    names = (*("H100" for _ in range(count)), *others)
    return tuple(Gpu(f"/dev/nvidia{number}", name, 81559) for number, name in enumerate(names))


def having(there: tuple[Gpu, ...], here: Site | None = None) -> Site:
    """Cluster ``apart`` whose a1 has these GPUs, and a0 as many as declared."""
    here = here or site(apart())
    facts = {**here.facts, "a1": replace(here.facts["a1"], gpus=there)}
    return replace(here, facts=facts)


def files(here: Site) -> Mapping[str, File]:
    """The files that the controller gets."""
    return {
        resource.path: resource
        for stage in desired_stages(here)
        for desired in stage.desired
        for resource in desired.resources
        if isinstance(resource, File) and "ctl" in desired.nodes
    }


def lines(file: File, *words: str) -> list[str]:
    return [line for line in file.content.splitlines() if all(word in line for word in words)]


def test_others_than_declared_are_in_slurm_under_another_name() -> None:
    """Slurm reports a node with fewer itself, as INVALID."""
    for count in (0, 7, 8):
        written = files(having(gpus(count)))
        assert "withheld" not in written["/etc/slurm/slurm.conf"].content
        assert "/etc/slurm/job_submit.lua" not in written
    written = files(having(gpus(10)))
    assert lines(written["/etc/slurm/gres.conf"], "a1", "Name=withheld") == [
        "NodeName=a1 Name=withheld File=/dev/nvidia[8-9] Flags=explicit"
    ]
    slurm = written["/etc/slurm/slurm.conf"]
    assert lines(slurm, "GresTypes") == ["GresTypes=gpu,withheld"]
    assert lines(slurm, "JobSubmitPlugins") == ["JobSubmitPlugins=lua"]
    assert lines(slurm, "NodeName=a1", "Gres=gpu:h100:8,withheld:2 ")
    assert lines(slurm, "NodeName=a0", "Gres=gpu:h100:8 ")
    assert not lines(slurm, "AccountingStorageTRES", "withheld")
    assert written["/etc/slurm/gres.conf"].note == (
        "no job gets GPUs that are not declared (a1: /dev/nvidia[8-9])"
    )
    assert "slurm_job_submit" in written["/etc/slurm/job_submit.lua"].content


def test_those_of_the_declared_model_are_for_jobs() -> None:
    """A card for the display comes first, or a GPU that fails has no name."""
    for other in ("NVIDIA T400 4GB", ""):
        there = (Gpu("/dev/nvidia0", other), *replaced(gpus(9)[1:]))
        written = files(having((*there, Gpu("/dev/nvidia9", "H100"))))
        gres = written["/etc/slurm/gres.conf"]
        assert lines(gres, "a1", "Name=withheld File=/dev/nvidia0,/dev/nvidia9 ")
        assert lines(gres, "a1", "Name=gpu Type=h100 File=/dev/nvidia[1-8]")


def replaced(there: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    return tuple(replace(gpu, name="NVIDIA H100 80GB HBM3") for gpu in there)


def refusal(here: Site) -> CorralError:
    with pytest.raises(CorralError) as error:
        desired_stages(here)
    assert (error.value.code, error.value.node) == (Code.NOT_GOOD, "a1")
    return error.value


def test_refused_where_slurm_cannot_withhold_them() -> None:
    old = site(apart(), slurm="22.05.8")
    error = refusal(having(gpus(9), old))
    assert error.message == (
        "this machine has 9 GPUs (9 H100), and the file declares 8: Slurm 22.05.8 gives them to "
        "jobs with a node to themselves, so jobs could open the others"
    )
    assert error.hint == HINT


def test_refused_where_job_submit_lua_is_the_sites_own() -> None:
    spec = apart()
    for plugins, refused in (("require_timelimit", False), ("all_partitions,lua", True)):
        slurm = spec.slurm.model_copy(update={"settings": {"JobSubmitPlugins": plugins}})
        here = having(gpus(9), site(spec.model_copy(update={"slurm": slurm})))
        if refused:
            assert "has another job_submit.lua" in refusal(here).message
        else:
            conf = files(here)["/etc/slurm/slurm.conf"]
            assert lines(conf, "JobSubmitPlugins") == ["JobSubmitPlugins=lua,require_timelimit"]


def test_refused_where_it_is_unknown_which_ones_are_declared() -> None:
    there = (*gpus(7), Gpu("/dev/nvidia7", ""), Gpu("/dev/nvidia8", ""))
    error = refusal(having(there))
    assert "nvidia-smi does not list all of them" in error.message
    assert error.hint == OUT


def test_refused_where_too_few_are_of_a_declared_model() -> None:
    spec = apart()
    kinds = (models.Gpu(type="h100", count=2), models.Gpu(type="t4", count=2))
    groups = tuple(
        group.model_copy(update={"gpu": None, "gpus": kinds}) if group.gpu else group
        for group in spec.groups
    )
    here = site(spec.model_copy(update={"groups": groups}))
    error = refusal(having(gpus(4, "Tesla T4"), here))
    assert error.message == (
        "this machine has 4 H100, 1 Tesla T4, and the file declares 2 h100, 2 t4"
    )
    assert lines(
        files(having(gpus(3, "Tesla T4", "Tesla T4"), here))["/etc/slurm/gres.conf"],
        "a1",
        "Name=withheld File=/dev/nvidia2 ",
    )


def test_machines_that_the_provider_makes_are_not_judged() -> None:
    desired_stages(site(laptop(), gpus=gpus(9)))


def test_a_group_that_declares_no_gpu_gives_jobs_none() -> None:
    """Where Slurm cannot withhold them, they are what they were: nothing is refused."""
    for slurm, expected in (
        ("24.11.5", ["NodeName=b0 Name=withheld File=/dev/nvidia0 "]),
        ("22.05.8", []),
    ):
        here = site(apart(), slurm=slurm)
        facts = {**here.facts, "b0": replace(here.facts["b0"], gpus=gpus(1))}
        written = files(replace(here, facts=facts))
        rows = lines(written["/etc/slurm/gres.conf"], "b0", "withheld")
        assert [line[: len(line) - len("Flags=explicit")] for line in rows] == expected
