"""The cluster file's switches in topology.conf, and the kernel module for RDMA."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from corral.errors import CorralError
from corral.plan.make import resources_of
from corral.roles.order import configured, desired_stages
from corral.spec.load import load_or_raise
from corral.spec.models import DataNetwork, Network
from corral.spec.sections.network import Switch, Topology
from corral.state.base import Context, Seen
from corral.state.system.kernel import Module
from tests.unit.roles.test_cluster import EXAMPLES, apart, laptop, listing, site
from tests.unit.slurm.clusters import written

SWITCHES = (
    Switch(name="leaf1", nodes="node[0-1]"),
    Switch(name="leaf2", nodes="node2"),
    Switch(name="top", switches=("leaf1", "leaf2")),
)


def files(plugin: str, version: str = "24.11.5") -> dict[str, str]:
    switches = SWITCHES if plugin == "tree" else SWITCHES[:2]
    topology = Topology(plugin=plugin, switches=switches)  # type: ignore[arg-type]
    cluster = site(laptop(network=Network(topology=topology)), slurm=version)
    return written(configured(cluster).slurm_files)


def test_a_tree() -> None:
    confs = files("tree")
    assert confs["topology.conf"].splitlines()[-3:] == [
        "SwitchName=leaf1 Nodes=node[0-1]",
        "SwitchName=leaf2 Nodes=node2",
        "SwitchName=top Switches=leaf1,leaf2",
    ]
    assert "TopologyPlugin=topology/tree" in confs["slurm.conf"]


def test_blocks() -> None:
    confs = files("block")
    assert confs["topology.conf"].splitlines()[-2:] == [
        "BlockName=leaf2 Nodes=node2",
        "BlockSizes=1",
    ]
    assert "TopologyPlugin=topology/block" in confs["slurm.conf"]


def test_blocks_need_a_slurm_that_has_them() -> None:
    with pytest.raises(CorralError, match="no topology/block"):
        files("block", "23.02.7")


def test_no_switches_no_file() -> None:
    confs = written(configured(site(laptop())).slurm_files)
    assert "topology.conf" not in confs
    assert "TopologyPlugin" not in confs["slurm.conf"]


@pytest.mark.parametrize(("fabric", "there"), [("infiniband", True), ("roce", True),
                                               ("ethernet", False)])  # fmt: skip
def test_gpus_with_rdma_get_the_module(fabric: str, there: bool) -> None:
    data = DataNetwork(fabric=fabric)  # type: ignore[arg-type]
    cluster = site(apart().model_copy(update={"network": Network(data=data)}), own_clock=True)
    held = resources_of(desired_stages(cluster))
    assert any(isinstance(r, Module) for r in held["a0"]) is there
    assert not any(isinstance(r, Module) for r in held["b0"]), "no GPUs"


@pytest.mark.parametrize(
    ("data", "there"),
    [
        (DataNetwork(fabric="infiniband"), True),
        (DataNetwork(fabric="roce"), True),
        (DataNetwork(fabric="infiniband", stack="vendor"), False),
        (DataNetwork(fabric="ethernet"), False),
        (None, False),
    ],
)
def test_nodes_of_an_rdma_network_get_the_inbox_stack(
    data: DataNetwork | None, there: bool
) -> None:
    cluster = site(laptop(network=Network(data=data)))
    for node, held in resources_of(desired_stages(cluster)).items():
        assert any(r.id == "packages:rdma" for r in held) is there, node


@pytest.mark.parametrize(("seen", "summary"), [
    ("none", None), ("loaded kept", None), ("out once", "load nvidia-peermem, also at each boot"),
    ("out kept", "load nvidia-peermem, also at each boot"),
])  # fmt: skip
def test_a_module_is_loaded_where_the_kernel_has_it(seen: str, summary: str | None) -> None:
    change = Module("nvidia-peermem").diff(Seen(0, seen), Context("here"))
    assert (change.summary if change else None) == summary


def test_the_dgx_example(golden: Callable[[str, str], None]) -> None:
    spec = load_or_raise(EXAMPLES / "dgx-infiniband.yaml")
    cluster = site(
        spec, own_clock=True, os_id="ubuntu", os_version="24.04", cgroup="v2", slurm="24.11.5"
    )
    golden("roles/dgx-infiniband.txt", listing(desired_stages(cluster)))
    golden("roles/dgx-infiniband.conf", configured(cluster).slurm_files.slurm.text)
