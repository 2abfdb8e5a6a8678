# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportPrivateUsage=false
"""``Cluster``: its methods are use cases, with their docstrings and types."""

from __future__ import annotations

import inspect
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import pytest

from corral.api import cluster as facade
from corral.api.cluster import Cluster
from corral.api.lifecycle import deployment
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec

if TYPE_CHECKING:
    import corral
    from corral import api
    from corral.doctor.model import Report
    from corral.plan.model import Plan
    from corral.prove.model import Proof

    def steps(count: int, rate: float = 0.1) -> float:
        """A function that runs as a job."""
        return count * rate

    def types_are_those_of_the_use_cases(cluster: corral.Cluster) -> None:
        """Read by pyright alone; a wrong call without its error is an error, too."""
        plan = assert_type(cluster.plan(), Plan)
        assert_type(cluster.apply(plan), None)
        assert_type(cluster.up(approve=lambda plan: plan.empty), bool)
        assert_type(cluster.down(purge=True), tuple[str, ...])
        assert_type(cluster.prove(["gpu"]), Proof)
        assert_type(cluster.prove(only=["gpu"]), Proof)
        assert_type(cluster.doctor("node[0-1]"), Report)
        assert_type(cluster.repair(), api.Repaired)
        assert_type(cluster.status(), api.Status)
        assert_type(cluster.exec(["true"], "node0", timeout=5.0), tuple[api.Outcome, ...])
        assert_type(cluster.drain("node0", reason="new memory"), dict[str, str])
        assert_type(cluster.resume("node0"), dict[str, str])
        assert_type(cluster.jobs(ended=True), tuple[api.JobInfo, ...])
        assert_type(cluster.submit("train.py", nodes=2), corral.Job)
        assert_type(cluster.submit(steps, 5, 0.1, nodes=2, time="5m"), corral.JobFuture[float])
        assert_type(cluster.submit(steps, 5).result(1.0), float)  # its rate has a default
        assert_type(cluster.submit(partial(steps, rate=0.5), 5), corral.JobFuture[float])
        assert_type(cluster.submit(lambda a, b: a + b, 1, 2).result(), int)
        assert_type(cluster.map(steps, [1, 2], at_once=1), list[corral.JobFuture[float]])
        cluster.submit(steps)  # pyright: ignore[reportCallIssue,reportArgumentType]
        cluster.submit(steps, "5")  # pyright: ignore[reportArgumentType]
        cluster.submit(steps, 5, 0.1, 7)  # pyright: ignore[reportArgumentType]
        cluster.submit(steps, 5, nodes="2")  # pyright: ignore[reportArgumentType]
        cluster.submit(steps, 5, node=2)  # pyright: ignore[reportCallIssue]
        cluster.map(steps, ["5"])  # pyright: ignore[reportArgumentType]
        cluster.drain("node0")  # pyright: ignore[reportCallIssue]
        cluster.drain("node0", 5)  # pyright: ignore[reportArgumentType]
        cluster.plan(ignore)  # pyright: ignore[reportCallIssue]
        cluster.exec("true", timeout="5")  # pyright: ignore[reportArgumentType]
        cluster.down(purged=True)  # pyright: ignore[reportCallIssue]


@pytest.fixture
def spec() -> ClusterSpec:
    return load_or_raise(Path(__file__).parents[3] / "examples" / "laptop.yaml")


def test_type_checkers_of_users_read_the_types() -> None:
    """PEP 561: without this file mypy takes everything of Corral's for Any."""
    assert resources.files("corral").joinpath("py.typed").is_file()


def test_a_method_is_the_use_case_without_spec_and_emit() -> None:
    shown = inspect.signature(Cluster.down)
    given = inspect.signature(deployment.down)
    assert [*shown.parameters] == ["self", "purge", "force"]
    assert [*given.parameters][2:] == ["purge", "force"]
    assert shown.return_annotation == given.return_annotation
    assert inspect.getdoc(Cluster.down) == inspect.getdoc(deployment.down)
    assert [*inspect.signature(Cluster.drain).parameters] == ["self", "nodes", "reason"]


def test_every_public_method_states_what_it_does() -> None:
    methods = {n: m for n, m in vars(Cluster).items() if callable(m) and n[0] != "_"}
    assert len(methods) > 20
    assert [n for n, method in methods.items() if not inspect.getdoc(method)] == []


def test_spec_and_emit_are_the_clusters(spec: ClusterSpec) -> None:
    async def use_case(spec: ClusterSpec, emit: Emit, word: str, *, times: int = 1) -> str:
        emit(Event(Kind.NOTE, "test", message=word))
        return f"{spec.name} {word * times}"

    events: list[Event] = []
    method = facade._with_events(use_case)
    assert method(Cluster(spec, events.append), "a", times=3) == "laptop aaa"
    assert [event.message for event in events] == ["a"]


def test_errors_are_those_of_the_use_case(spec: ClusterSpec) -> None:
    with pytest.raises(CorralError) as caught:
        Cluster(spec).drain("node0", reason=" ")
    assert caught.value.code is Code.USAGE
    with pytest.raises(TypeError, match="reason"):
        Cluster(spec).drain("node0")  # pyright: ignore[reportCallIssue]
