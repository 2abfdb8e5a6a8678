"""Keys replaced on live clusters while a job on all nodes starts steps in a loop.

CORRAL_TEST_KEYS=NAME uses a running cluster of examples/laptop.yaml with that name (for the
tests with munge: one with slurm.auth munge).
"""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Callable, Iterator

import pytest
from tests.embedded.busy import BusyJob
from tests.embedded.conftest import Live, named
from tests.embedded.running_cluster import HALF_WRITTEN, cancel, job_on, pid_of
from tests.embedded.test_crash import Fuse, kill_scripts

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.models import ClusterSpec, Slurm

EXISTING = os.environ.get("CORRAL_TEST_KEYS", "")
MOST = {api.Which.AUTH: 28, api.Which.MUNGE: 16, api.Which.JWT: 6}
"""Changes that a rotation is killed at, one after the other; more than it has."""
KEYS = {
    api.Which.AUTH: ("/etc/slurm/slurm.jwks", "/etc/slurm/slurm.key"),
    api.Which.MUNGE: ("/etc/munge/munge.key",),
    api.Which.JWT: (),
}


def digests(live: Live, path: str) -> set[str]:
    """Digests of a file over all nodes: one, when they agree."""
    answers = live.with_fleet(lambda fleet: fleet.all(sh("sha256sum < {path}", path=path)))
    assert not [a for a in answers.values() if isinstance(a, CorralError)]
    return {a.stdout for a in answers.values() if not isinstance(a, CorralError)}


def settled(live: Live) -> None:
    """Nothing is left to do, and all nodes take a step of a user."""
    plan = asyncio.run(api.plan(live.spec))
    assert plan.empty, [c.change.summary for s in plan.stages for c in s.changes]
    script = sh("timeout 60 runuser -u corral -- srun -N3 hostname | sort | tr '\\n' ' '")
    answer = live.run(live.controller, script, timeout=90)
    assert answer.stdout.strip() == "node0 node1 node2", answer.tail


def rotate(
    spec: ClusterSpec, kill_at: int, which: api.Which = api.Which.AUTH
) -> tuple[int, list[str]]:
    """Rotate in a separate process that SIGKILLs itself at its N-th change (0: never)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            asyncio.run(api.rotate_keys(spec, Fuse(kill_at, writing), which=which))
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
def with_munge(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    spec = named(EXISTING or f"keys-munge-{os.getpid()}", slurm=Slurm(auth="munge"))
    return Live(spec, {}) if EXISTING else fresh_cluster(spec)


@pytest.fixture(scope="module")
def first(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """A cluster whose keys were never rotated."""
    spec = named(EXISTING or f"keys-{os.getpid()}")
    return Live(spec, {}) if EXISTING else fresh_cluster(spec)


@pytest.fixture
def lives_on() -> Iterator[Callable[[Live], None]]:
    """Starts a job; it must be the same processes in the end."""
    jobs: list[tuple[Live, str, str]] = []

    def begin(live: Live) -> None:
        job = job_on(live, "node1")
        jobs.append((live, job, pid_of(live, "node1", job)))

    yield begin
    for live, job, pid in jobs:
        after = pid_of(live, "node1", job)
        cancel(live, [job])
        assert after == pid, "the job did not live through it"


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
        assert ended.state == "COMPLETED", ended.output
        assert (ended.failed, ended.lived) == (0, 3), ended.output
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
    assert (ended.state, ended.lived) == ("COMPLETED", 3), (killed, ended.output)
    assert len(digests(first, "/etc/slurm/slurm.jwks")) == 1
    settled(first)


@pytest.mark.slow
def test_a_node_with_another_key_is_fixed(first: Live) -> None:
    """F01: found by digest, by the next plan; so also after a rotation that was killed."""
    first.run("node1", sh("echo broken > /etc/slurm/slurm.jwks"))
    plan = asyncio.run(api.plan(first.spec))
    touched = {n for s in plan.stages for c in s.changes for n in c.nodes}
    resources = [c.change.resource for s in plan.stages for c in s.changes]
    assert touched == {"node1"} and "secret:/etc/slurm/slurm.jwks" in resources
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
def test_rotated_keys_do_not_stand_in_the_way_of_munge(first: Live) -> None:
    """slurmd without its files takes auth/slurm where there is a slurm.jwks: it must be gone."""
    if asyncio.run(api.rotation_phase(first.spec)) == "none":
        asyncio.run(api.rotate_keys(first.spec))
    settled(first)
    munge = Live(first.spec.model_copy(update={"slurm": Slurm(auth="munge")}), {})
    assert asyncio.run(api.up(munge.spec))
    settled(munge)
    assert asyncio.run(api.up(first.spec))
    settled(first)


@pytest.mark.slow
def test_munge_loses_no_job(with_munge: Live) -> None:
    before = digests(with_munge, "/etc/munge/munge.key")
    job = BusyJob(with_munge)
    asyncio.run(api.rotate_keys(with_munge.spec))
    job.more()
    ended = job.end()
    print(f"munge: {ended.ran} steps ran, {ended.failed} failed")
    assert (ended.state, ended.lived) == ("COMPLETED", 3), ended.output
    after = digests(with_munge, "/etc/munge/munge.key")
    assert len(after) == 1 and not after & before
    settled(with_munge)


def goes_on_after_a_kill(live: Live, which: api.Which, at: int) -> None:
    """Killed at one change, with its scripts on the nodes: a second call ends it everywhere."""
    before = {path: digests(live, path) for path in KEYS[which]}
    status, begun = rotate(live.spec, at, which)
    if status == 0:
        assert len(begun) < MOST[which]
        settled(live)
        pytest.skip(f"the rotation has {len(begun)} changes")
    kill_scripts(live.spec.name)
    done, again = rotate(live.spec, 0, which)
    print(f"killed at {at}, {begun[-1]}; then {len(again)} changes")
    assert done == 0
    for path, was in before.items():
        now = digests(live, path)
        assert len(now) == 1, f"a node has another {path} after a kill at {begun[-1]}"
        assert not now & was
    left = live.with_fleet(
        lambda fleet: fleet.all(
            sh(
                "ls -A /etc/slurm /etc/munge /var/spool/slurmctld 2>/dev/null | grep -E {e}; :",
                e=HALF_WRITTEN,
            )
        )
    )
    listings = {n: a.stdout for n, a in left.items() if not isinstance(a, CorralError)}
    assert listings == {"node0": "", "node1": "", "node2": ""}, "half written keys are left"
    settled(live)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, MOST[api.Which.AUTH] + 1))
def test_killed_at_each_change(at: int, first: Live, lives_on: Callable[[Live], None]) -> None:
    lives_on(first)
    goes_on_after_a_kill(first, api.Which.AUTH, at)
    assert asyncio.run(api.rotation_phase(first.spec)) == "rotated"


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, MOST[api.Which.JWT] + 1))
def test_jwt_killed_at_each_change(at: int, first: Live, lives_on: Callable[[Live], None]) -> None:
    lives_on(first)
    token = sh("scontrol token username=corral lifespan=900 | cut -d= -f2")
    old = first.run(first.controller, token).stdout.strip()
    goes_on_after_a_kill(first, api.Which.JWT, at)
    ask = sh("IFS= read -r SLURM_JWT && export SLURM_JWT && timeout 10 squeue 2>&1")
    assert not first.run(first.controller, ask, stdin=f"{old}\n".encode()).ok
    new = first.run(first.controller, token).stdout.strip()
    assert first.run(first.controller, ask, stdin=f"{new}\n".encode()).ok


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, MOST[api.Which.MUNGE] + 1))
def test_munge_killed_at_each_change(
    at: int, with_munge: Live, lives_on: Callable[[Live], None]
) -> None:
    lives_on(with_munge)
    goes_on_after_a_kill(with_munge, api.Which.MUNGE, at)
