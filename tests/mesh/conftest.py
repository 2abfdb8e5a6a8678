"""One mesh lab and one cluster in it for all tests of this folder, in their order.

Two homes behind NAT: node0, the controller, in the first; node1, a machine, and node2, a rented
container without init, TUN or rights, in the second. CORRAL_TEST_MESH=NAME keeps the lab
under that name and finds it again; ``python -m tests.mesh.lab down NAME`` removes it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral import api
from corral.apply.journal import read_journal
from corral.errors import CorralError
from corral.events import Event
from corral.plan.model import Plan
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir
from tests.mesh.lab import Lab, LabNode, needs, tools

KEPT = os.environ.get("CORRAL_TEST_MESH", "")
FOLDER = Path(__file__).parent
SHORTEST_PATH = {
    "test_a_first_plan_states_how_each_node_joins_and_nothing_else",
    "test_there_is_no_path_but_the_mesh",
    "test_no_key_is_left_anywhere",
    "test_a_second_plan_is_empty",
    "test_slurm_is_proven_over_the_mesh",
    "test_the_pod_runs_jobs_without_init_or_rights",
    "test_down_leaves_nothing_in_the_tailnet_or_on_the_nodes",
}
"""From nodes behind NAT to a proven cluster over the mesh, and nothing left of it."""


def file_of(lab: Lab, *, pod: bool = True, jobs: str = "within-an-island") -> str:
    """The cluster file."""
    nodes = lab.nodes if pod else lab.nodes[:2]
    groups = "\n".join(
        f"  - {{name: {name}, provider: ssh, nodes: {n.name}, addresses: {n.address}, "
        f"ssh: {{key: {lab.key}}}}}"
        for name, n in zip(("desk", "rent", "pod"), nodes, strict=False)
    )
    return f"""\
corral: v1
name: {lab.name}
groups:
{groups}
controller: node0
network:
  control: tailscale
  mesh: {{url: "{lab.control.url}", programs: {tools.folder()}, jobs: {jobs}}}
"""


@dataclass(frozen=True)
class Mesh:
    """The lab with its cluster."""

    lab: Lab

    def spec(self, *, pod: bool = True, jobs: str = "within-an-island") -> ClusterSpec:
        path = self.lab.folder / "cluster.yaml"
        path.write_text(file_of(self.lab, pod=pod, jobs=jobs))
        return load_or_raise(path)

    def up(self, **how: object) -> ClusterSpec:
        """``corral up``; a failure shows all that it carries."""
        spec = self.spec(**how)  # type: ignore[arg-type]
        try:
            asyncio.run(api.up(spec, show_event))
        except CorralError as error:
            pytest.fail(f"up: {error.code}: {error}\n{error.command}\n{error.tail}\n{error.hint}")
        return spec

    def plan(self, **how: object) -> Plan:
        return asyncio.run(api.plan(self.spec(**how)))  # type: ignore[arg-type]

    @property
    def desk(self) -> LabNode:
        return self.lab.nodes[0]

    @property
    def rent(self) -> LabNode:
        return self.lab.nodes[1]

    @property
    def pod(self) -> LabNode:
        return self.lab.nodes[2]

    def at(self, node: str) -> str:
        """A node's address in the tailnet: who joins first gets the first."""
        return (self.desk.ssh(f"getent ahostsv4 {node}") or "").split()[0]

    def job(self, script: str, *, check: bool = True, timeout: float = 120) -> str | None:
        """Run shell as the job user on the controller."""
        text = script.replace("'", "'\\''")
        command = f"cd /tmp && su corral -s /bin/sh -c '{text}' 2>&1"
        return self.desk.ssh(command, check=check, timeout=timeout)

    def journal(self) -> str:
        """All that the journal keeps."""
        records = read_journal(cluster_dir(self.lab.name, create=False) / "journal.jsonl")
        return "\n".join(map(str, records))


def show_event(event: Event) -> None:
    """Print what an ``up`` does: pytest shows it where a test fails."""
    if event.message or event.seconds:
        print(event.kind, event.subject, event.node, event.seconds or "", event.message, flush=True)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The lab, its control server running, and no node in the tailnet yet."""
    lab = Lab.make(KEPT or f"mesh-{os.getpid()}", [(0, "machine"), (1, "machine"), (1, "pod")])
    environment = {
        "HEADSCALE_API_KEY_FILE": str(lab.control.key_file),
        "SSL_CERT_FILE": str(lab.control.authority),
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    yield lab
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    if lab.name == KEPT:
        return
    lab.remove()
    shutil.rmtree(cluster_dir(lab.name, create=False), ignore_errors=True)
    assert lab.left() == []


@pytest.fixture(scope="session")
def mesh(lab: Lab) -> Mesh:
    """The lab with its cluster up."""
    cluster = Mesh(lab)
    cluster.up()
    return cluster


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need the mesh's programs; without them they skip, and report why.

    Each run takes the shortest complete path; the others are slow.
    """
    reason = needs()
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.mesh)
            if item.name not in SHORTEST_PATH:
                item.add_marker(pytest.mark.slow)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
