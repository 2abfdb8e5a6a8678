"""ibnetdiscover's output for fabrics of 2 to 512 nodes, and Slurm's topology of them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.slurm import topology
from corral.slurm.conf.conf_file import HEADER
from corral.slurm.topology import Switch


class Made:
    """A fabric put together link by link and printed as ibnetdiscover prints it."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.links: dict[str, list[tuple[str, int, str]]] = {}

    def add(self, id: str, name: str) -> str:
        self.names[id] = name
        self.links[id] = []
        return id

    def wire(self, device: str, other: str, rate: str = "4xNDR") -> None:
        here, there = len(self.links[device]) + 1, len(self.links[other]) + 1
        self.links[device].append((other, there, rate))
        self.links[other].append((device, here, rate))

    def text(self) -> str:
        lines = ["#", "# Topology file: generated on Sat Nov 21 12:00:00 2026", "#"]
        for id, name in self.names.items():
            kind = "Switch" if id[0] == "S" else "Ca"
            guid = id[2:]
            lines += ["", "vendid=0x2c9", f"{kind.lower()}guid=0x{guid}({guid})"]
            tail = " enhanced port 0 lid 1 lmc 0" if kind == "Switch" else ""
            lines.append(f'{kind}\t{len(self.links[id])} "{id}"\t\t# "{name}"{tail}')
            for port, (peer, there, rate) in enumerate(self.links[id], 1):
                mine = f"({guid})" if kind == "Ca" else ""
                theirs = f"({peer[2:]})" if peer[0] == "H" else ""
                lines.append(
                    f'[{port}]{mine}\t"{peer}"[{there}]{theirs}'
                    f' \t\t# "{self.names[peer]}" lid 7 {rate}'
                )
        return "\n".join(lines) + "\n"


def fat_tree(leaves: int, per_leaf: int, pods: int = 1) -> tuple[str, list[str]]:
    """One adapter in each node; leaves of a pod share two spines, pods share two cores."""
    made, nodes, number = Made(), [], 0
    cores = [made.add(f"S-c{c:015x}", f"MF0;core{c}:MQM9700/U1") for c in range(2)]
    for pod in range(pods):
        spines = [
            made.add(f"S-5{pod:07x}{s:08x}", f"MF0;spine{pod}-{s}:MQM9700/U1") for s in (0, 1)
        ]
        for spine in spines if pods > 1 else ():
            for core in cores:
                made.wire(spine, core)
        for leaf in range(leaves):
            switch = made.add(f"S-1{pod:07x}{leaf:08x}", f"MF0;leaf{pod}-{leaf}:MQM9700/U1")
            for spine in spines:
                made.wire(switch, spine)
            for _ in range(per_leaf):
                nodes.append(f"n{number:03}")
                made.wire(made.add(f"H-{number:016x}", f"n{number:03} mlx5_0"), switch)
                number += 1
    return made.text(), nodes


def rails(units: int, per_unit: int, adapters: int = 8) -> tuple[str, list[str]]:
    """Rail-optimised: the adapters of a unit's nodes hang on eight leaves, all leaves on spines."""
    made, nodes, number = Made(), [], 0
    spines = [made.add(f"S-5{s:015x}", f"MF0;spine{s}:MQM9700/U1") for s in range(4)]
    for unit in range(units):
        leaves = []
        for rail in range(adapters):
            leaf = made.add(f"S-1{unit:07x}{rail:08x}", f"MF0;su{unit}-rail{rail}:MQM9700/U1")
            for spine in spines:
                made.wire(leaf, spine)
            leaves.append(leaf)
        for _ in range(per_unit):
            name = f"dgx{number:03}"
            nodes.append(name)
            for rail, leaf in enumerate(leaves):
                made.wire(made.add(f"H-{number:08x}{rail:08x}", f"{name} mlx5_{rail}"), leaf)
            number += 1
    return made.text(), nodes


def odd() -> tuple[str, list[str]]:
    """Two rails: a slow adapter, a node that lacks a rail, a cable between switches gone bad."""
    made = Made()
    spine = made.add("S-5000000000000000", "MF0;spine0:MQM8700/U1")
    leaves = [made.add(f"S-100000000000000{i}", f"MF0;rail{i}:MQM8700/U1") for i in range(2)]
    for leaf in leaves:
        for cable in range(4):
            bad = (leaf, cable) == (leaves[1], 2)
            made.wire(leaf, spine, "4xDDR" if bad else "4xHDR")
    nodes = [f"n{i}" for i in range(8)]
    for i, node in enumerate(nodes):
        for rail, leaf in enumerate(leaves[: 1 if i == 3 else 2]):
            rate = "4xEDR" if (i, rail) == (5, 1) else "4xHDR"
            made.wire(made.add(f"H-{i:08x}{rail + 1:08x}", f"{node} mlx5_{rail}"), leaf, rate)
    return made.text(), nodes


ODD = (
    "n3: 1 links to the fabric, others have 2",
    "n5: n5 mlx5_1 runs at 100 Gb/s, others at 200",
    "the cable from rail1 port 3 to spine0 port 7 runs at 20 Gb/s, others at 200",
)


def recorded(name: str) -> str:
    """What the real ibnetdiscover printed over a simulated fabric (tests/embedded)."""
    path = Path(__file__).parents[2] / f"recorded/fabric/{name}.txt.gz"
    return gzip.decompress(path.read_bytes()).decode()


def test_what_is_odd_is_named_from_a_recorded_listing() -> None:
    nodes = odd()[1]
    for text in (odd()[0], recorded("odd-8")):
        fabric = topology.parse(text)
        assert sorted(topology.complaints(fabric, nodes)) == sorted(ODD)
        # A link that is down does not put its node apart.
        assert topology.tree(fabric, nodes) == (Switch("leaf1", tuple(nodes)),)


def test_recorded_listings_of_large_fabrics() -> None:
    _, nodes = fat_tree(16, 8, 4)
    switches = topology.tree(topology.parse(recorded("fat-tree-512")), nodes)
    assert switches == topology.tree(topology.parse(fat_tree(16, 8, 4)[0]), nodes)
    assert len([s for s in switches if s.nodes]) == 64
    _, nodes = rails(4, 16)
    units = topology.blocks(topology.tree(topology.parse(recorded("rails-64")), nodes))
    assert [s.nodes for s in units] == [tuple(nodes[i : i + 16]) for i in range(0, 64, 16)]


def test_two_levels() -> None:
    text, nodes = fat_tree(leaves=3, per_leaf=2)
    assert topology.tree_file(topology.tree(topology.parse(text), nodes)).text == HEADER + (
        "SwitchName=leaf1 Nodes=n[000-001]\nSwitchName=leaf2 Nodes=n[002-003]\n"
        "SwitchName=leaf3 Nodes=n[004-005]\nSwitchName=spine1-1 Switches=leaf1,leaf2,leaf3\n"
    )


def test_three_levels_keep_pods_together() -> None:
    text, nodes = fat_tree(leaves=2, per_leaf=2, pods=2)
    switches = {s.name: s for s in topology.tree(topology.parse(text), nodes)}
    assert switches["spine1-1"].switches == ("leaf1", "leaf2")
    assert switches["spine1-2"].switches == ("leaf3", "leaf4")
    assert switches["spine2-1"].switches == ("spine1-1", "spine1-2")


def test_rails_are_one_leaf_for_each_unit() -> None:
    text, nodes = rails(units=2, per_unit=4)
    switches = topology.tree(topology.parse(text), nodes)
    assert [s.nodes for s in switches if s.nodes] == [tuple(nodes[:4]), tuple(nodes[4:])]
    assert topology.block_file(topology.blocks(switches)).text == HEADER + (
        "BlockName=leaf1 Nodes=dgx[000-003]\nBlockName=leaf2 Nodes=dgx[004-007]\nBlockSizes=4\n"
    )


@pytest.mark.parametrize("made", [lambda: fat_tree(16, 8, 4), lambda: rails(16, 32)])
def test_five_hundred_nodes(made: Callable[[], tuple[str, list[str]]]) -> None:
    text, nodes = made()
    assert len(nodes) == 512
    switches = topology.tree(topology.parse(text), nodes)
    assert sorted(n for s in switches for n in s.nodes) == sorted(nodes)
    named = {s.name for s in switches}
    under = [c for s in switches for c in s.switches]
    assert len(under) == len(set(under))
    assert set(under) <= named
    assert len(named - set(under)) == 1, "one root"


def test_parts_that_nothing_connects_have_one_root_all_the_same() -> None:
    made = Made()
    for i in (0, 1):
        leaf = made.add(f"S-{i:016x}", f"leaf{i}")
        made.wire(made.add(f"H-{i:016x}", f"n{i} mlx5_0"), leaf)
    switches = topology.tree(topology.parse(made.text()), ["n0", "n1"])
    assert switches[-1] == Switch("apart", switches=("leaf1", "leaf2"))


def test_nodes_that_are_not_on_it_are_named() -> None:
    text, nodes = fat_tree(2, 2)
    with pytest.raises(CorralError) as raised:
        topology.tree(topology.parse(text), [*nodes, "elsewhere"])
    assert (raised.value.code, raised.value.node) == (Code.NOT_GOOD, "elsewhere")


def test_odd_links_are_named() -> None:
    made = Made()
    leaf = made.add("S-1", "leaf")
    for i in range(4):
        for rail in range(1 if i == 3 else 2):
            hca = made.add(f"H-{i}{rail}", f"n{i} mlx5_{rail}")
            made.wire(hca, leaf, "4xHDR" if (i, rail) == (2, 1) else "4xNDR")
    complaints = topology.complaints(topology.parse(made.text()), ["n0", "n1", "n2", "n3", "n4"])
    assert complaints == (
        "n4 is not on the fabric",
        "n3: 1 links to the fabric, others have 2",
        "n2: mlx5_1 of n2 runs at 200 Gb/s, others at 400".replace("mlx5_1 of n2", "n2 mlx5_1"),
    )


@pytest.mark.parametrize("text", ["", "hello", "Switch", 'Ca\t1 "H-1"\t# "a b"\n'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(CorralError, match="no switch"):
        topology.parse(text)


@given(st.text(max_size=300))
@settings(max_examples=30, deadline=None)
def test_any_text_gives_a_fabric_or_an_error(text: str) -> None:
    try:
        topology.parse('Switch 1 "S-1" # "x"\n' + text)
    except CorralError as error:
        assert error.code is Code.PARSE_FAILED
