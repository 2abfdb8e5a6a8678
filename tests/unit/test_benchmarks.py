"""Benchmarks that need no cluster run at their smallest size; all use public modules alone.

The others run in the suites that have what they measure (``ELSEWHERE``, ``EMBEDDED``).
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import pkgutil
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import benchmarks
import pytest
from benchmarks.convergence import peers

from corral.errors import CorralError
from corral.spec.providers import CLOUDS
from corral.testing import machines
from tests.embedded.test_benchmarks import ALONE, ON_A_CLUSTER, TRAINING, printed

REPO = Path(__file__).parents[2]
EMBEDDED = "tests/embedded/test_benchmarks.py"
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
)
HERE = {"plan_scale", "up_scale", "clouds", "shaped_links"}
PROGRAMS = {
    "page_loop": (("--jobs", "60", "--nodes", "4"), "longest block"),
    "page_flood": (
        ("--seconds", "1", "--only", "at once", "--rate", "50", "--uid", "0"),
        "server ",
    ),
    "web": (
        ("--nodes", "80", "--jobs", "60", "--viewers", "2", "--rounds", "0", "--turns", "1",
         "--rest", "2", "--settle", "0.5"),
        "server memory at most, MiB",
    ),
    "slurm_web": (("--nodes", "20", "--jobs", "60", "--rounds", "1"), "10 viewers of the nodes"),
}  # fmt: skip
"""Those that run as a program: they start the page's server, or measure their own event loop."""
ELSEWHERE = {
    "bare_metal": "tests/machines/test_lab.py",
    "rehearsal": "tests/clouds/test_benchmark.py",
}
DOORS = {"corral", "corral.api", "corral.events", "corral.agents"}
TESTING = re.compile(r"corral\.testing\.[a-z]+")
"""Each module of that package is public, and no module below one of them."""


def imported(path: Path) -> Iterator[str]:
    """Modules of Corral that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def started(path: Path) -> Iterator[str]:
    """Programs of Corral that a file starts by ``python -m``: in argument lists and in shell."""
    for node in ast.walk(ast.parse(path.read_text())):
        parts = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        parts = node.args if isinstance(node, ast.Call) else parts
        texts = [getattr(part, "value", None) for part in parts]
        yield from (str(b) for a, b in pairwise(texts) if a == "-m" and str(b).startswith("corral"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"-m (corral[.\w]*)", node.value)


def is_public(module: str) -> bool:
    """Whether a module is public itself; modules below a public one are not."""
    return module in DOORS or bool(TESTING.fullmatch(module)) or module == "corral.testing"


def is_allowed(module: str) -> bool:
    """Whether a benchmark may import it: a public module, or one of others than Corral."""
    room = module.partition(".")[0]
    return is_public(module) if room == "corral" else room != "tests"


@pytest.mark.parametrize("path", sorted((REPO / "benchmarks").rglob("*.py")), ids=lambda p: p.name)
def test_it_uses_public_doors_alone(path: Path) -> None:
    assert [module for module in imported(path) if not is_allowed(module)] == []
    assert [module for module in started(path) if not is_allowed(module)] == []


def test_a_started_inner_program_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        'a = [x, "-m", "corral.web"]\nrun(y, "-m", "corral.hosts.forward", z)\n'
        'b = f"{python} -m corral.web.as_user {c}"\nd = ("-m", "corral", "up")\n'
        'e = [x, "-m", "corral.testing.clouds"]\n'
    )
    inner = {module for module in started(file) if not is_allowed(module)}
    assert inner == {"corral.web", "corral.hosts.forward", "corral.web.as_user"}


def test_an_inner_module_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "def a():\n    from corral.state.files import File\n    import corral.api\n"
        "    import corral.api.evidence.scaling\n    from corral.testing.clouds.__main__ import x\n"
        "    from corral.testing.clouds import x\n    from tests.clouds.common import World\n"
        "    import tests.machines.lab\n    import json\n"
    )
    allowed = [module for module in imported(file) if is_allowed(module)]
    assert allowed == ["corral.api", "corral.testing.clouds", "json"]


@pytest.mark.parametrize("name", MODULES)
def test_it_is_imported(name: str) -> None:
    importlib.import_module(name)


def test_each_has_a_test() -> None:
    programs = {m.split(".")[1] for m in MODULES} - {"machine"}
    assert programs == HERE | set(PROGRAMS) | set(ALONE) | set(ON_A_CLUSTER) | set(ELSEWHERE)


def test_those_elsewhere_run_in_each_complete_run() -> None:
    """Not a slow test: a run takes at most a fifth of those."""
    for name, file in (*ELSEWHERE.items(), *((n, EMBEDDED) for n in (*ALONE, *ON_A_CLUSTER))):
        tree = ast.parse((REPO / file).read_text())
        tests = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_it_measures")
        ]
        assert tests, f"{name}: {file} has no test"
        assert "mark.slow" not in "".join(ast.unparse(d) for t in tests for d in t.decorator_list)
        assert not any(ast.unparse(node).startswith("pytestmark") for node in tree.body), file


def test_the_readme_names_what_slow_tests_alone_run() -> None:
    head = (REPO / "benchmarks/README.md").read_text().partition("```")[0]
    for name, (words, _) in TRAINING.items():
        assert f"`{name}`" in head, name
        assert name not in ON_A_CLUSTER or f"`{' '.join(words[-2:])}`" in head, words
    assert "CI takes the fifth of those that `.ci/part` names, 0 none" in " ".join(head.split())


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("web", (), "not installed: playwright\nhint: "),
        ("slurm_web", ("--source", "nowhere"), "nowhere is not a git checkout of Slurm-web"),
        ("page_flood", ("--uid", "65534"), "floods as another user need root"),
    ],
)
def test_what_is_missing_is_reported_before_anything_is_measured(
    name: str,
    words: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``benchmarks.web`` ended after two minutes, with a ModuleNotFoundError."""
    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [name, *words])
    monkeypatch.setattr(module, "player", lambda *_: pytest.fail("it began"))
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/chromium")
    monkeypatch.setattr("benchmarks.machine.find_spec", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit) as ended:
        module.main()
    shown = f"{ended.value} {capsys.readouterr().err}"
    assert message in shown
    if name == "web":
        assert shown.strip().endswith("-m pip install -r " + str(REPO / "requirements-dev.lock"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_measures(name: str) -> None:
    words, label = PROGRAMS[name]
    assert label in printed(name, *words)


@pytest.mark.parametrize("engine", [peers.ansible, peers.pyinfra])
def test_convergence_of_the_peers(
    engine: Callable[[Path, peers.Inventory], list[str]], tmp_path: Path
) -> None:
    """Their programs are not installed for tests; what they get is."""
    at = {"address": "192.0.2.1", "key": "/k", "known_hosts": "/h", "proxy": "p"}
    argv = engine(tmp_path, {"n0": at})
    files = [word for word in argv if word.endswith((".py", ".json"))]
    assert len(files) == 2
    for name in files:
        text = (tmp_path / name).read_text()
        assert ast.parse(text) if name.endswith(".py") else json.loads(text)


@pytest.mark.parametrize("state", ["fresh", "done"])
def test_plan_scale(state: str) -> None:
    from benchmarks import plan_scale  # noqa: PLC0415

    figures = plan_scale.measure(4, state)
    assert (figures["changes"] > 0) is (state == "fresh")


def test_up_scale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from benchmarks import up_scale  # noqa: PLC0415

    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    steps = up_scale.measure(5, give_up=0.01)
    assert all(row["scripts"] >= 5 for row in steps.values())
    assert steps["plan, nothing to do"]["scripts"] == 5


def test_plan_scale_names_the_resource_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    from corral.state.service import Service  # noqa: PLC0415

    monkeypatch.delitem(machines.ANSWERS, Service)
    with pytest.raises(CorralError, match="ANSWERS lacks what a machine that holds service:"):
        machines.planned(1, complete=True)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_clouds(cloud: str, tmp_path: Path) -> None:
    from benchmarks import clouds  # noqa: PLC0415

    figures: dict[str, Any] = clouds.measure(cloud, 2, tmp_path)
    assert figures["nodes"] == 2


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
