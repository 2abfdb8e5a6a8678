"""Real machines for all tests of this folder: made once, removed at the end.

``machines``: three bare ones. ``lab``: a cluster that Corral has made of them over SSH.
CORRAL_TEST_MACHINES=keep leaves them standing (as a lab of that name, any name) and finds them
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
from corral.events import Event
from corral.hosts.facts import Facts
from corral.hosts.state_dir import cluster_dir
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from tests.embedded.conftest import Live
from tests.machines.lab import Lab, image

KEPT = os.environ.get("CORRAL_TEST_MACHINES", "")
FOLDER = Path(__file__).parent


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
    """Three bare machines (or, kept, as the last run left them)."""
    return fresh_lab(KEPT or f"test-{os.getpid()}")


@pytest.fixture(scope="session")
def lab(machines: Lab) -> Live:
    """The cluster on the three machines, up and proven by Corral."""
    spec = spec_of(machines)

    def said(event: Event) -> None:
        if event.message:
            print(f"{event.subject} {event.node}: {event.message}", flush=True)

    asyncio.run(api.up(spec, said))
    return Live(spec, asyncio.run(read_facts_of(spec)))


async def read_facts_of(spec: ClusterSpec) -> dict[str, Facts]:
    """Facts of all machines, read now."""
    async with await Session.open(spec) as session:
        return await session.facts()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are real machines' tests; without those they skip, and say why."""
    reason = image.needs()
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.machines)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
