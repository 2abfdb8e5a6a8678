"""Real machines for all tests of this folder: made once, removed at the end.

``machines``: bare ones, with what their owner had there before Corral came. ``lab``: a cluster that
Corral has made of them over SSH. Two machines; three with CORRAL_TEST_SLOW.
CORRAL_TEST_MACHINES=keep keeps them (as a lab of that name, any name) and finds them
again in the next run; ``python -m tests.machines.lab down keep`` removes them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral import api
from corral.apply.session import Session
from corral.errors import CorralError
from corral.events import Event
from corral.hosts.quote import sh
from corral.inspect.facts import Facts
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir
from tests.embedded.conftest import Live
from tests.machines.before_after import OWNERS, snapshot
from tests.machines.lab import Lab, image

KEPT = os.environ.get("CORRAL_TEST_MACHINES", "")
COUNT = 3 if os.environ.get("CORRAL_TEST_SLOW") else 2  # slow tests need three
FOLDER = Path(__file__).parent
DOWN_NODES = sh("timeout 20 sinfo --noheader --Node --states=down,drain,fail,unknown -o %N")


def lab_file(name: str, addresses: list[str]) -> str:
    """examples/lab-3x5090.yaml for machines without GPUs, reached by a user with sudo."""
    return f"""\
corral: v1
name: {name}
groups:
  - name: rtx
    provider: ssh
    nodes: node[0-{len(addresses) - 1}]
    addresses: "{",".join(addresses)}"
    ssh: {{user: {image.USER}, key: {image.key()}}}
controller: node0
partitions:
  - {{name: main, groups: [rtx], default: true, max_time: infinite}}
users:
  - {{name: alice, uid: 2001}}
  - {{name: bob, uid: 2002}}
"""


def spec_of(lab: Lab) -> ClusterSpec:
    """The cluster on these machines, under the lab's name."""
    file = lab.folder / "lab.yaml"
    file.write_text(lab_file(lab.name, lab.addresses))
    return load_or_raise(file)


def show_event(event: Event) -> None:
    """Print what an ``up`` does, with seconds and load: pytest shows it where a test fails."""
    if event.message or event.seconds:
        seconds = f"{event.seconds:.1f} s" if event.seconds else ""
        load = f"(load {os.getloadavg()[0]:.0f})"
        print(event.kind, event.subject, event.node, seconds, event.message, load, flush=True)


def bring_up(spec: ClusterSpec) -> Live:
    """``up``; a failure shows all that it carries."""
    try:
        asyncio.run(api.up(spec, show_event))
    except CorralError as error:
        pytest.fail(f"up: {error.code}: {error}\n{error.command}\n{error.tail}\n{error.hint}")
    return Live(spec, asyncio.run(read_facts_of(spec)))


@pytest.fixture(scope="session")
def fresh_lab() -> Iterator[Callable[..., Lab]]:
    """Makes bare machines: ``fresh_lab(name, count, suite)``; all go at the end."""
    made: list[Lab] = []

    def make(name: str, count: int = 3, suite: str = "trixie") -> Lab:
        lab = Lab.make(name, count, suite)
        made.append(lab)
        return lab

    yield make
    for lab in made:
        if lab.name == KEPT:
            continue
        lab.remove()
        shutil.rmtree(cluster_dir(lab.name), ignore_errors=True)
        assert lab.left() == []


@pytest.fixture(scope="session")
def machines(fresh_lab: Callable[..., Lab]) -> Lab:
    """Bare machines (or, kept, as the last run left them); what they were like is kept."""
    lab = fresh_lab(KEPT or f"test-{os.getpid()}", COUNT)
    for machine in lab.machines:
        was = lab.folder / f"before{machine.index}"
        if not was.exists():
            if machine.index == 1:
                machine.root(OWNERS)
            was.write_text(snapshot(machine))
    return lab


@pytest.fixture(scope="session")
def lab(machines: Lab) -> Live:
    """The cluster on the machines, brought up by Corral in one go."""
    return bring_up(spec_of(machines))


@pytest.fixture(autouse=True)
def one_failure_at_a_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails leaves no machine off and no cable out for those after it."""
    yield
    if "machines" not in request.fixturenames:
        return
    lab: Lab = request.getfixturevalue("machines")
    for machine in lab.machines:
        machine.reconnect_network()
        if not machine.pid:
            machine.on()
    lab.wait()
    if "lab" in request.fixturenames and "test_restoration" not in request.node.nodeid:
        live: Live = request.getfixturevalue("lab")
        idle = live.run(live.controller, DOWN_NODES)
        if not idle.ok or idle.stdout.strip():
            bring_up(live.spec)


async def read_facts_of(spec: ClusterSpec) -> dict[str, Facts]:
    """Facts of all machines, read now."""
    async with await Session.open(spec) as session:
        return await session.facts()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are real machines' tests; without those they skip, and report why.

    Each run takes those of test_lab, from bare machines to a proven cluster; the others are slow.

    Those that release the shared machines come last.
    """
    reason = image.needs()
    ours = [item for item in items if item.path.is_relative_to(FOLDER)]
    for item in ours:
        item.add_marker(pytest.mark.machines)
        if item.path.stem != "test_lab":
            item.add_marker(pytest.mark.slow)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    order = {"test_lab": 0, "test_restoration": 2}
    ours.sort(key=lambda item: order.get(item.path.stem, 1))
    places = [i for i, item in enumerate(items) if item.path.is_relative_to(FOLDER)]
    for place, item in zip(places, ours, strict=True):
        items[place] = item
