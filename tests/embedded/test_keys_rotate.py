"""Keys replaced on live clusters while a job on all nodes starts steps in a loop."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Callable, Iterator

import pytest
from tests.embedded.busy import BusyJob
from tests.embedded.conftest import Live, named
from tests.embedded.test_crash import Fuse

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.models import ClusterSpec, Slurm


def digests(live: Live, path: str) -> set[str]:
    """Digests of a file over all nodes: one, when they agree."""
    said = live.with_fleet(lambda fleet: fleet.all(sh("sha256sum < {path}", path=path)))
    assert not [a for a in said.values() if isinstance(a, CorralError)]
    return {a.stdout for a in said.values() if not isinstance(a, CorralError)}


def settled(live: Live) -> None:
    """Nothing is left to do, and all nodes take a step of a user."""
    plan = asyncio.run(api.plan(live.spec))
    assert plan.empty, [c.change.summary for s in plan.stages for c in s.changes]
    script = sh("timeout 60 runuser -u corral -- srun -N3 hostname | sort | tr '\\n' ' '")
    answer = live.run(live.controller, script, timeout=90)
    assert answer.stdout.strip() == "node0 node1 node2", answer.tail


def rotate(spec: ClusterSpec, kill_at: int) -> tuple[int, list[str]]:
    """Rotate in a process of its own that SIGKILLs itself at its N-th change (0: never)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            asyncio.run(api.rotate_keys(spec, Fuse(kill_at, writing)))
            status = 0
        except BaseException:  # the child must not go on as a second pytest
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as lines:
        begun = lines.read().splitlines()
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), f"rotation failed after {begun[-3:]}"
    return status, begun


@pytest.fixture(scope="module")
def with_munge(fresh_cluster: Callable[[ClusterSpec], Live]) -> Iterator[Live]:
    yield fresh_cluster(named(f"keys-munge-{os.getpid()}", slurm=Slurm(auth="munge")))


@pytest.fixture(scope="module")
def first(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """A cluster whose keys were never rotated."""
    return fresh_cluster(named(f"keys-{os.getpid()}"))


@pytest.mark.slow
def test_auth_slurm_disturbs_nothing(first: Live) -> None:
    """The first rotation (slurm.key becomes slurm.jwks), and the next one."""
    assert asyncio.run(api.rotation_phase(first.spec)) == "none"
    for _ in range(2):
        before = digests(first, "/etc/slurm/slurm.key")
        job = BusyJob(first)
        asyncio.run(api.rotate_keys(first.spec))
        job.more()
        ended = job.end()
        assert ended.state == "COMPLETED", ended.said
        assert (ended.failed, ended.lived) == (0, 3), ended.said
        assert asyncio.run(api.rotation_phase(first.spec)) == "rotated"
        assert len(digests(first, "/etc/slurm/slurm.jwks")) == 1
        assert not digests(first, "/etc/slurm/slurm.key") & before
        settled(first)


@pytest.mark.slow
def test_killed_at_changes_it_goes_on(first: Live) -> None:
    job = BusyJob(first)
    killed: list[str] = []
    for at in (2, 5, 8, 12, 16):
        status, begun = rotate(first.spec, at)
        if status == 0:
            break
        killed.append(begun[-1])
    assert len(killed) > 1
    assert rotate(first.spec, 0)[0] == 0
    assert asyncio.run(api.rotation_phase(first.spec)) == "rotated", killed
    job.more()
    ended = job.end()
    assert (ended.state, ended.lived) == ("COMPLETED", 3), (killed, ended.said)
    assert len(digests(first, "/etc/slurm/slurm.jwks")) == 1
    settled(first)


@pytest.mark.slow
def test_a_node_with_another_key_is_mended(first: Live) -> None:
    """F01: found by digest, by the next plan; so also after a rotation that was killed."""
    first.run("node1", sh("echo broken > /etc/slurm/slurm.jwks"))
    plan = asyncio.run(api.plan(first.spec))
    touched = {n for s in plan.stages for c in s.changes for n in c.nodes}
    said = [c.change.resource for s in plan.stages for c in s.changes]
    assert touched == {"node1"} and "secret:/etc/slurm/slurm.jwks" in said
    asyncio.run(api.up(first.spec))
    settled(first)


@pytest.mark.slow
def test_old_tokens_end_with_the_jwt_key(first: Live) -> None:
    token = sh("scontrol token username=corral lifespan=900 | cut -d= -f2")
    old = first.run(first.controller, token).stdout.strip()
    ask = sh("IFS= read -r SLURM_JWT && export SLURM_JWT && timeout 10 squeue 2>&1")
    assert first.run(first.controller, ask, stdin=f"{old}\n".encode()).ok
    asyncio.run(api.rotate_keys(first.spec, which=api.Which.JWT))
    refused = first.run(first.controller, ask, stdin=f"{old}\n".encode())
    assert not refused.ok and "authentication" in refused.stdout
    new = first.run(first.controller, token).stdout.strip()
    assert first.run(first.controller, ask, stdin=f"{new}\n".encode()).ok
    settled(first)


@pytest.mark.slow
def test_munge_loses_no_job(with_munge: Live) -> None:
    before = digests(with_munge, "/etc/munge/munge.key")
    job = BusyJob(with_munge)
    asyncio.run(api.rotate_keys(with_munge.spec))
    job.more()
    ended = job.end()
    print(f"munge: {ended.ran} steps ran, {ended.failed} failed")
    assert (ended.state, ended.lived) == ("COMPLETED", 3), ended.said
    after = digests(with_munge, "/etc/munge/munge.key")
    assert len(after) == 1 and not after & before
    settled(with_munge)
