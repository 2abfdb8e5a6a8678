"""Each module of ``benchmarks/`` is imported; those that need no cluster run, at the smallest."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import sys
from pathlib import Path
from typing import Any

import benchmarks
import pytest

REPO = Path(__file__).parents[2]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    if not module.name.endswith("corral_engine")  # runs inside pyinfra, in another environment
)
HERE = {"plan_scale", "clouds", "shaped_links"}
ELSEWHERE = {
    "convergence", "elastic_scale", "jobs", "laptop", "many_nodes", "rehearsal", "slurm_web", "web",
    "bare_metal",
}  # fmt: skip
"""They need clusters, machines or another program: here they are only imported."""


@pytest.mark.parametrize("name", MODULES)
def test_it_is_imported(name: str) -> None:
    importlib.import_module(name)


def test_each_has_a_test() -> None:
    programs = {m.split(".")[1] for m in MODULES} - {"machine"}
    assert programs == HERE | ELSEWHERE


@pytest.mark.parametrize("state", ["fresh", "done"])
def test_plan_scale(state: str) -> None:
    from benchmarks import plan_scale  # noqa: PLC0415

    found = plan_scale.measure(4, state)
    assert (found["changes"] > 0) is (state == "fresh")


def test_plan_scale_names_the_resource_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import plan_scale  # noqa: PLC0415

    from corral.state.service import Service  # noqa: PLC0415

    monkeypatch.delitem(plan_scale.ANSWERS, Service)
    with pytest.raises(SystemExit, match="ANSWERS lacks what a machine that holds service:"):
        plan_scale.measure(1, "done")


@pytest.mark.parametrize("cloud", ["lambda", "runpod", "paperspace"])
def test_clouds(cloud: str, tmp_path: Path) -> None:
    from benchmarks import clouds  # noqa: PLC0415

    found: dict[str, Any] = clouds.measure(cloud, 2, tmp_path)
    assert found["nodes"] == 2


def test_shaped_links(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from benchmarks import shaped_links  # noqa: PLC0415

    recorded = REPO / "tests" / "recorded" / "scaling"
    for rate in ("10", "2.5", "1"):
        shutil.copy(recorded / f"{rate}gbit.txt", tmp_path / f"{rate}.txt")
    monkeypatch.setattr(sys, "argv", ["x", "lab", f"--read={tmp_path}", "--rates=10,2.5,1"])
    shaped_links.main()
    assert "within 15%" in capsys.readouterr().out
