"""Switches from a real ibnetdiscover over a simulated fabric, and a real slurmctld that reads them.

ibsim (Debian's ibsim-utils) answers the tool's packets from a made fabric; slurmctld runs in a
container of the node image (test_conf_oracle.py). CORRAL_TEST_RECORD=FOLDER keeps what
ibnetdiscover printed: tests/recorded/fabric is from there.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.test_conf_oracle import image, run
from tests.unit.roles.test_cluster import site
from tests.unit.slurm.test_topology import Made, fat_tree, odd, rails

from corral import api
from corral.roles.machine import fabric
from corral.slurm import topology
from corral.spec.load import load_text
from corral.spec.models import ClusterSpec

__all__ = ["image"]

LIBRARY = sorted(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"))
LARGE = ("-N", "6000", "-S", "300", "-P", "50000", "-L", "10000")


@pytest.fixture(autouse=True)
def tools() -> None:
    if not LIBRARY or not shutil.which("ibsim") or not shutil.which("ibnetdiscover"):
        pytest.skip("ibsim-utils and infiniband-diags are not installed")


@contextlib.contextmanager
def simulated(folder: Path, net: str, host: str) -> Iterator[dict[str, str]]:
    """The environment in which InfiniBand's tools find themselves on a host of that fabric."""
    (folder / "fabric.net").write_text(net)
    # Commands come by standard input, and its end would end it; the number keeps two runs apart.
    number = str(os.getpid() % 30000)
    process = subprocess.Popen(
        ["ibsim", "-s", "-n", *LARGE, "fabric.net"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=(folder / "ibsim.log").open("w"),
        stderr=subprocess.STDOUT,
        env={**os.environ, "IBSIM_SOCKNAME": f"corral-{number}"},
    )
    try:
        yield {
            **os.environ,
            "LD_PRELOAD": str(LIBRARY[0]),
            "SIM_HOST": host,
            "IBSIM_SOCKNAME": f"corral-{number}",
        }
    finally:
        process.kill()
        process.wait(30)


def discovered(folder: Path, name: str, net: str, host: str) -> str:
    """What ibnetdiscover prints on the host."""
    with simulated(folder, net, host) as env:
        until = time.monotonic() + 60
        while True:
            done = subprocess.run(
                ["ibnetdiscover"], env=env, capture_output=True, text=True, timeout=60, check=False
            )
            if done.returncode == 0 or time.monotonic() > until:
                break
            time.sleep(0.2)
    assert done.returncode == 0, (done.stderr[-500:], (folder / "ibsim.log").read_text()[-500:])
    kept = os.environ.get("CORRAL_TEST_RECORD", "")
    if kept:
        packed = gzip.compress(done.stdout.encode(), 9, mtime=0)
        (Path(kept) / f"{name}.txt.gz").write_bytes(packed)
    return done.stdout


FABRICS = {
    "fat-tree-512": lambda: fat_tree(16, 8, 4),
    "rails-64": lambda: rails(4, 16),
    "rails-512": lambda: rails(16, 32),
    "odd-8": odd,
}


@pytest.mark.parametrize("name", FABRICS)
def test_the_tools_own_listing_is_the_fabric_that_was_made(name: str, tmp_path: Path) -> None:
    text, nodes = FABRICS[name]()
    made, host = sim_of(text)
    listing = discovered(tmp_path, name, made, host)
    read, expected = topology.parse(listing), topology.parse(made)
    assert topology.tree(read, nodes) == topology.tree(expected, nodes)
    assert sorted(topology.complaints(read, nodes)) == sorted(topology.complaints(expected, nodes))
    assert bool(topology.complaints(read, nodes)) == (name == "odd-8")


SPEC = """\
corral: v1
name: large
controller: head
groups:
  - {name: head, provider: ssh, nodes: head, addresses: 10.9.9.1}
  - {name: dgx, provider: ssh, nodes: "NODES", addresses: "ADDRESSES"}
partitions: [{name: batch, groups: [dgx], default: true}]
"""
START = r"""
ip addr add 10.9.9.1/24 dev lo; ip link set lo up; echo 10.9.9.1 node0 >> /etc/hosts
rm -f /etc/slurm/*.conf; cp /conf/*.conf /etc/slurm/
install -d -o slurm -g slurm /var/spool/slurmctld /run/slurmctld
head -c 1024 /dev/urandom > /etc/munge/munge.key
chown munge:munge /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
install -d -o munge -g munge /run/munge; runuser -u munge -- munged
runuser -u slurm -- slurmctld -D > /tmp/log 2>&1 &
pid=$!
for i in $(seq 300); do
  scontrol ping 2> /dev/null | grep -q 'is UP' && break
  kill -0 $pid 2> /dev/null || break
  sleep .2
done
timeout 20 scontrol show topology
grep -iE 'error|fatal' /tmp/log | grep -i topo
"""


def declared(listing: str, count: int, plugin: str) -> ClusterSpec:
    """A cluster of that many nodes with the switches that corral export topology printed."""
    text = SPEC.replace("NODES", f"dgx[000-{count - 1}]").replace(
        "ADDRESSES", ",".join(f"10.8.{i}.[1-128]" for i in range(count // 128))
    )
    first = load_text(text, "large.yaml").spec
    assert first is not None
    exported = api.fabric_of(first, listing, plugin=plugin)
    assert exported.odd == ()
    both = load_text(text + exported.text, "large.yaml")
    assert both.spec is not None, both.findings
    return both.spec


@pytest.mark.parametrize("plugin", ["tree", "block"])
def test_slurmctld_takes_five_hundred_nodes(image: str, plugin: str, tmp_path: Path) -> None:
    listing = discovered(tmp_path, "rails-512", *sim_of(rails(16, 32)[0]))
    spec = declared(listing, 512, plugin)
    assert spec.network.topology is not None
    leaves = [s for s in spec.network.topology.switches if s.nodes]
    assert [s.nodes for s in leaves][:2] == ["dgx[000-031]", "dgx[032-063]"]
    conf = fabric.topology(site(spec))
    assert conf is not None
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "topology.conf").write_text(conf.text)
    (folder / "slurm.conf").write_text(
        "ClusterName=x\nSlurmctldHost=node0(10.9.9.1)\nAuthType=auth/munge\nSlurmUser=slurm\n"
        f"StateSaveLocation=/var/spool/slurmctld\nTopologyPlugin=topology/{plugin}\n"
        "NodeName=dgx[000-511] NodeAddr=10.9.9.1 CPUs=8\nPartitionName=batch Nodes=ALL\n"
    )
    output = run(image, START, "--volume", f"{folder}:/conf:ro")
    assert "rror" not in output, output
    units = re.findall(r"(?:SwitchName|BlockName)=(\S+) .*?Nodes=(\S+)", output)
    known = dict(units)
    for switch in leaves:
        assert known[switch.name] == switch.nodes, output
    if plugin == "tree":
        assert re.search(r"SwitchName=spine1-1 Level=1 .*Nodes=dgx\[000-511\]", output), output


def sim_of(made: str) -> tuple[str, str]:
    """A made fabric as ibsim 0.10 takes it, which knows no NDR, and a host of it."""
    text = made.replace("4xNDR", "4xHDR")
    return text, re.findall(r'^Ca\t\d+ "([^"]+)"', text, re.MULTILINE)[0]


def test_one_node_alone_has_a_fabric_too(tmp_path: Path) -> None:
    made = Made()
    leaf = made.add("S-0000000000000001", "MF0;leaf:MQM9700/U1")
    made.wire(made.add("H-0000000000000010", "solo mlx5_0"), leaf)
    read = topology.parse(discovered(tmp_path, "solo", *sim_of(made.text())))
    assert topology.tree(read, ["solo"]) == (topology.Switch("leaf1", ("solo",)),)
