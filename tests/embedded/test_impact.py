"""Every field's declared impact is honoured: what restarts, what does not, and the job lives."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.impacts import BASE, EDITS, PEOPLE, Data, put
from tests.embedded.running_cluster import cancel, job_on, pid_of, restarted, settled, starts

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec
from corral.spec.schema import walk

MAY_RESTART = {
    "none": set[str](),
    # It holds no state and serves one request at a time; it reads slurm.conf at its start only.
    "reload": {"slurmrestd"},
    "restart": {"slurmctld", "slurmdbd", "slurmd", "slurmrestd", "mariadb"},
}
AT_WORST = {"none": Impact.NONE, "reload": Impact.RELOAD, "restart": Impact.RESTART}
DECLARED = {f.path: f.impact for f in walk()}


@pytest.fixture(scope="module")
def live(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """A cluster with people, accounts and a QOS."""
    existing = os.environ.get("CORRAL_TEST_LIVING", "")
    spec = edited(named(existing or f"impact-{os.getpid()}"), lambda data: None)
    return Live(spec, {}) if existing else fresh_cluster(spec)


@pytest.fixture(scope="module")
def running() -> Iterator[list[tuple[Live, str, str]]]:
    """The job that runs meanwhile, with its processes: one for all changes that let it live."""
    jobs: list[tuple[Live, str, str]] = []
    yield jobs
    for live, job, _ in jobs:
        cancel(live, [job])


@pytest.fixture
def working(live: Live, running: list[tuple[Live, str, str]]) -> tuple[Live, str, str]:
    """The cluster as declared, and a job that runs on node1."""
    if not asyncio.run(api.plan(live.spec)).empty:
        settled(live)
    if not running or pid_of(live, "node1", running[-1][1]) != running[-1][2]:
        job = job_on(live, "node1")
        running.append((live, job, pid_of(live, "node1", job)))
    return running[-1]


def edited(spec: ClusterSpec, edit: Callable[[Data], None]) -> ClusterSpec:
    """The cluster file with one change."""
    data: dict[str, Any] = spec.model_dump(mode="json", exclude_defaults=True)
    data.setdefault("users", PEOPLE)
    data.update({key: value for key, value in BASE.items() if key not in data})
    edit(data)
    return ClusterSpec.model_validate(data)


# One of each kind of change; the others run in rotation.
QUICK = {"accounts.limits.gpus", "groups.features", "partitions.max_time", "users.name"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path in QUICK else pytest.mark.slow) for path in sorted(EDITS)],
)
def test_a_change_does_what_its_field_declares(path: str, working: tuple[Live, str, str]) -> None:
    live, job, pid = working
    before = starts(live)
    spec = edited(live.spec, EDITS[path])
    plan = asyncio.run(api.plan(spec))
    assert plan.impact <= AT_WORST[DECLARED[path]], [
        c.change.summary for s in plan.stages for c in s.changes
    ]
    settled(Live(spec, {}))
    assert restarted(before, starts(live)) <= MAY_RESTART[DECLARED[path]]
    settled(live)
    assert pid_of(live, "node1", job) == pid, "the job did not live through it"


@pytest.mark.slow
def test_a_partition_goes_when_it_is_empty(
    working: tuple[Live, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    live, job, pid = working
    renamed = Live(edited(live.spec, put("partitions", 0, "name", value="all")), {})
    plan = asyncio.run(api.plan(renamed.spec))
    assert plan.impact is Impact.DRAIN
    monkeypatch.setattr("corral.roles.machine.base.WAIT_S", 1)
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.up(renamed.spec))
    assert f"{job} of corral" in caught.value.tail
    assert pid_of(live, "node1", job) == pid
    settled(live)  # it stays after all: it takes jobs again
    cancel(live, [job, job_on(live, "node2")])
    settled(renamed)
    settled(live)


@pytest.mark.slow
def test_a_change_that_drains_waits_for_jobs(
    working: tuple[Live, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    live, job, pid = working
    munge = Live(edited(live.spec, put("slurm", "auth", value="munge")), {})
    plan = asyncio.run(api.plan(munge.spec))
    assert plan.impact is Impact.DRAIN
    monkeypatch.setattr("corral.roles.slurm.controller.WAIT_S", 1)
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.up(munge.spec))
    assert f"{job} of corral" in caught.value.tail
    assert pid_of(live, "node1", job) == pid
    states = live.run("node0", sh("sinfo -h -o %T")).stdout
    assert "drain" not in states, "undrained when jobs did not end"
    cancel(live, [job])
    settled(munge)
    assert "auth/munge" in live.run("node0", sh("scontrol show config")).stdout
    assert live.run("node0", sh("timeout 60 srun -N3 hostname")).ok
    settled(live)
    assert live.run("node0", sh("timeout 60 srun -N3 hostname")).ok


def test_a_uid_is_not_taken_from_another(working: tuple[Live, str, str]) -> None:
    live, job, pid = working
    taken = Live(edited(live.spec, put("users", value=[*PEOPLE, {"name": "x", "uid": 2000}])), {})
    with pytest.raises(CorralError):
        asyncio.run(api.up(taken.spec))
    assert pid_of(live, "node1", job) == pid
