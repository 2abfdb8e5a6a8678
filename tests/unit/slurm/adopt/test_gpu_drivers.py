"""Which driver a GPU needs: cluster files and existing files are judged by one table."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.doctor.catalog import catalog
from corral.inspect.gpu import gpu_types
from corral.prove.measure.gpu import gpu_models
from corral.slurm.adopt.review import judge
from corral.spec.load import load_text
from corral.spec.rules import drivers
from tests.growth import AT_MOST, growth
from tests.unit.slurm.adopt.files import GOOD, existing

NAMED = ("b100", "b200", "b300", "gb100", "gb200", "gb300", "gtx1080", "titan_xp", "p100", "h200")
GPUS = sorted({*gpu_types().values(), *(model.title for model in gpu_models()), *NAMED})


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("rtx_5090", True),
        ("NVIDIA GeForce RTX 5080", True),
        ("nvidia_geforce_rtx_5090", True),
        ("geforce-rtx-5070", True),
        ("b100", True),
        ("gb200", True),
        ("B300", True),
        ("NVIDIA GB300", True),
        ("RTX PRO 6000 Blackwell", True),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", True),
        ("rtx_pro_6000", True),
        ("h100", False),
        ("rtx_4090", False),
        ("NVIDIA RTX 5000 Ada Generation", False),
        ("b1000", False),
        ("my5090s", False),
    ],
)
def test_which_names_are_blackwell(name: str, known: bool) -> None:
    assert drivers.is_blackwell(name) == known


@pytest.mark.parametrize("known", [drivers.is_blackwell, drivers.is_before_turing])
@pytest.mark.parametrize("filling", ["_", " ", "rtx_", "rtx ", "geforce_rtx-", "b", "50", "titan"])
def test_a_long_word_takes_no_time(filling: str, known: object) -> None:
    """100,000 underscores took minutes: three repetitions in a row, tried from each place."""
    small, large = ((filling * n)[:n] for n in (25_000, 100_000))
    assert callable(known)
    assert growth(partial(known, small), partial(known, large)) < AT_MOST


@cache
def of_cluster_file(gpu: str, driver: str, cuda: str) -> set[str]:
    """What the rules of the cluster file report about a driver (``580-open``) and a toolkit."""
    text = (
        "corral: v1\nname: lab\ngroups:\n- {name: g, provider: ssh, nodes: n0, addresses: "
        f"10.0.0.1, gpu: {{type: {gpu.replace(' ', '_')}, count: 1}}}}\n"
        f'software:\n  nvidia: {{driver: "{driver}", cuda: "{cuda}", source: vendor}}\n'
    )
    rules = {f.rule for f in load_text(text, "lab.yaml").findings}
    assert not any(rule.startswith("field") for rule in rules)
    return rules & {"driver-flavour", "cuda-gpu"}


def of_script(gpu: str, package: str) -> list[str]:
    """What the rule of set-up scripts reports about a package, for a GPU of gres.conf."""
    files = {name: text.replace("rtx5090", "h100") for name, text in GOOD.items()}
    files["gres.conf"] = f'Name=gpu Type="{gpu}" File=/dev/nvidia0\n'
    packages = "nvidia-driver-570-open cuda-toolkit-12-8"
    assert packages in files["setup.sh"]
    files["setup.sh"] = files["setup.sh"].replace(packages, package)
    judged = [j for j in judge(existing(files)) if j.rule.id == "setup-driver"]
    return [judgement.problem.message for judgement in judged]


@given(
    gpu=st.sampled_from(GPUS),
    branch=st.sampled_from([470, 535, 550, 565, 569, 570, 575, 580, 590]),
    flavour=st.sampled_from(["", "-open", "-server", "-server-open"]),
)
def test_both_rules_agree_about_drivers(gpu: str, branch: int, flavour: str) -> None:
    reported = of_script(gpu, f"nvidia-driver-{branch}{flavour}")
    assert bool(reported) == (
        "driver-flavour" in of_cluster_file(gpu, f"{branch}{flavour}", "none")
    )


@given(gpu=st.sampled_from(GPUS), cuda=st.sampled_from(["11.8", "12.4", "12.8", "12.9", "13.0"]))
def test_both_rules_agree_about_toolkits(gpu: str, cuda: str) -> None:
    reported = of_script(gpu, f"cuda-toolkit-{cuda.replace('.', '-')}")
    assert bool(reported) == ("cuda-gpu" in of_cluster_file(gpu, "580-open", cuda))


def test_the_names_of_the_property_are_of_all_generations() -> None:
    assert sum(map(drivers.is_blackwell, GPUS)) > 5
    assert sum(map(drivers.is_before_turing, GPUS)) > 3
    assert (
        len([g for g in GPUS if not (drivers.is_blackwell(g) or drivers.is_before_turing(g))]) > 5
    )


def test_the_name_of_a_type_has_the_generation_of_its_device() -> None:
    table = drivers.driver_table()
    for device, gpu in gpu_types().items():
        assert drivers.is_blackwell(gpu) == (int(device, 16) >= table.blackwell), gpu
        assert drivers.is_before_turing(gpu) == (int(device, 16) < table.turing), gpu


def test_the_branch_in_texts_is_the_tables() -> None:
    table = drivers.driver_table()
    about = {rule.id: rule.meaning for rule in drivers.RULES}
    assert f"branch {table.blackwell_branch} or newer" in about["driver-flavour"]
    assert f"needs {table.blackwell_cuda} or newer" in about["cuda-gpu"]
    [message] = of_script("gb200", "nvidia-driver-580")
    assert message == "nvidia-driver-580: gb200 (Blackwell) runs with the open kernel module only"
    assert table.needs[table.blackwell_cuda] == table.blackwell_branch
    entry = catalog()["F25"]
    assert f"CUDA {table.blackwell_cuda} or later" in entry.fix
    assert f"{table.blackwell_branch} or later" in entry.fix


def test_the_guide_has_the_tables_branches(repo: Path) -> None:
    table = drivers.driver_table()
    guide = " ".join((repo / "docs/guide/machines.md").read_text().split())
    assert f"`auto` is branch {table.auto}," in guide
    assert ", ".join(f"{release}: {branch}" for release, branch in table.debian.items()) in guide
