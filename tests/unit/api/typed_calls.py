# ruff: noqa: B018  # names that are not there
# pyright: basic
"""Calls of the API as mypy reads them in a user's code; ``./test lint`` runs it, nobody imports it.

A wrong call without its error is an error, too (``warn_unused_ignores``). pyright reads the same of
``test_cluster.py``.
"""

from __future__ import annotations

from functools import partial
from typing import assert_type

import corral
from corral import api
from corral.doctor.model import Report
from corral.plan.model import Plan
from corral.prove.model import Proof


def steps(count: int, rate: float = 0.1) -> float:
    """A function that runs as a job."""
    return count * rate


def right(cluster: corral.Cluster) -> None:
    plan = assert_type(cluster.plan(), Plan)
    cluster.apply(plan)
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
    assert_type(cluster.submit(steps, 5).result(1.0), float)
    assert_type(cluster.submit(partial(steps, rate=0.5), 5), corral.JobFuture[float])
    assert_type(cluster.map(steps, [1, 2], at_once=1), list[corral.JobFuture[float]])


def wrong(cluster: corral.Cluster) -> None:
    cluster.submit(steps)  # type: ignore[call-arg,arg-type]
    cluster.submit(steps, "5")  # type: ignore[arg-type]
    cluster.submit(steps, 5, 0.1, 7)  # type: ignore[call-arg,arg-type]
    cluster.submit(steps, 5, nodes="2")  # type: ignore[call-overload]
    cluster.submit(steps, 5, node=2)  # type: ignore[call-overload]
    cluster.map(steps, ["5"])  # type: ignore[arg-type]
    cluster.drain("node0")  # type: ignore[call-arg]
    cluster.drain("node0", 5)  # type: ignore[arg-type]
    cluster.plan(5)  # type: ignore[call-arg,arg-type]
    cluster.exec("true", timeout="5")  # type: ignore[arg-type]
    cluster.down(purged=True)  # type: ignore[call-arg]


def not_any(cluster: corral.Cluster) -> None:
    """What comes back has a type; of Any each name would be right."""
    cluster.plan().no_such_name  # type: ignore[attr-defined]
    cluster.prove().no_such_name  # type: ignore[attr-defined]
    cluster.doctor().no_such_name  # type: ignore[attr-defined]
    cluster.repair().no_such_name  # type: ignore[attr-defined]
    cluster.status().no_such_name  # type: ignore[attr-defined]
    cluster.exec(["true"])[0].no_such_name  # type: ignore[attr-defined]
    cluster.jobs()[0].no_such_name  # type: ignore[attr-defined]
    cluster.submit("train.py").no_such_name  # type: ignore[attr-defined]
    cluster.submit(steps, 5).no_such_name  # type: ignore[attr-defined]
