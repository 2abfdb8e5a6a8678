"""The command line with use cases that touch nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from corral import api
from corral.apply.journal import Journal
from corral.cli.main import app
from corral.hosts.quote import sh
from corral.plan.model import MachineChange, NodeChange, Plan, Stage
from corral.prove.model import CheckResult, Evidence, Proof, Verdict
from corral.spec.impacts import Impact
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.state.base import Change, Gate
from corral.state_dir import cluster_dir

Run = Callable[..., Result]
LAPTOP = Path(__file__).parents[3] / "examples" / "laptop.yaml"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder and a current folder of the test's own, and a terminal of known width."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("CORRAL_CLUSTER", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "laptop.yaml").write_text(LAPTOP.read_text())
    return folder


@pytest.fixture
def corral() -> Run:
    """Run a command line; ``stdin`` is not a terminal."""

    def run(*args: str, stdin: str = "") -> Result:
        return CliRunner().invoke(app, list(args), input=stdin)

    return run


@pytest.fixture
def spec() -> ClusterSpec:
    return load_or_raise(LAPTOP)


def remember(spec: ClusterSpec) -> None:
    """Make a cluster known, as ``up`` does."""
    journal = Journal(cluster_dir(spec.name) / "journal.jsonl", "test")
    journal.write("spec", {"spec": spec.model_dump(mode="json")})


@pytest.fixture
def known(spec: ClusterSpec) -> ClusterSpec:
    """The laptop cluster, brought up from here."""
    remember(spec)
    return spec


class Fake:
    """Replaces use cases by answers and records the calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.calls: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {}

    def answer(self, name: str, answer: Any) -> None:
        """``api.name(...)`` gives the answer, calls it with the arguments, or raises it."""
        calls = self.calls.setdefault(name, [])

        async def use_case(*args: Any, **kwargs: Any) -> Any:
            calls.append((args, kwargs))
            if isinstance(answer, BaseException):
                raise answer
            return answer(*args, **kwargs) if callable(answer) else answer

        self._monkeypatch.setattr(api, name, use_case)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(monkeypatch)


def stdout_json(result: Result) -> Any:
    """What stdout holds, which must be one JSON value in one line and nothing else."""
    lines = result.stdout.splitlines()
    assert len(lines) == 1, result.stdout
    return json.loads(lines[0])


EMPTY = Plan("laptop", "spec", "seen")
MACHINES = Plan(
    "laptop",
    "spec",
    "seen",
    machines=(
        *(
            MachineChange(
                f"node{i}",
                "create",
                f"container corral-laptop-node{i} does not exist yet; its GPUs are 2 stand-ins of "
                "type slot: nothing computes on them",
            )
            for i in range(3)
        ),
        MachineChange("node9", "remove", "node node9 is declared no longer"),
    ),
    deferred=((("node0", "node1", "node2"), tuple(f"package:p{i}" for i in range(9))),),
)
CHANGES = Plan(
    "laptop",
    "spec",
    "seen",
    stages=(
        Stage(
            "base",
            "names, users and packages",
            (
                NodeChange(
                    ("node0", "node1", "node2"),
                    Change(
                        "file:/etc/hosts",
                        "write the names of all nodes to /etc/hosts",
                        "127.0.0.1 localhost\n127.0.1.1 node0\n",
                        "127.0.0.1 localhost\n10.0.0.10 node0\n10.0.0.11 node1\n",
                        sh("true"),
                    ),
                ),
                NodeChange(
                    ("node2",),
                    Change(
                        "package:slurmd",
                        "install slurmd\x1b[31m",
                        "",
                        "slurmd",
                        sh("true"),
                        Impact.RESTART,
                    ),
                ),
            ),
        ),
        Stage(
            "compute",
            "slurmd on all compute nodes",
            (
                NodeChange(
                    ("node1",),
                    Change(
                        "service:slurmd",
                        "restart slurmd",
                        "stopped",
                        "active",
                        sh("true"),
                        Impact.DRAIN,
                    ),
                ),
            ),
            (Gate("3 nodes are registered", "node0", sh("true")),),
        ),
    ),
)
GOOD_PROOF = Proof(
    "laptop",
    1_700_000_000.0,
    (
        CheckResult(
            "smoke.nodes",
            "All nodes are up",
            "smoke",
            Verdict.PASS,
            "3 nodes up: node[0-2]",
            evidence=(Evidence("node0", "scontrol show nodes", "State=IDLE", {"nodes": 3}),),
            seconds=0.6,
        ),
        CheckResult("rest.answers", "REST answers", "rest", Verdict.SKIP, "slurm.rest is false"),
    ),
)
BAD_PROOF = Proof(
    "laptop",
    1_700_000_000.0,
    (
        *GOOD_PROOF.results,
        CheckResult(
            "isolation.devices",
            "A job opens its own GPUs only",
            "isolation",
            Verdict.FAIL,
            "node1: a job opened a GPU that is not its own",
            hint="ConstrainDevices=yes is missing in cgroup.conf (F40)",
            evidence=(
                Evidence(
                    "node1",
                    "head -c0 /dev/nvidia1",
                    "opened\x1b]0;title\x07\nline two",
                    {"opened": 1},
                ),
            ),
            seconds=2.25,
        ),
    ),
)
