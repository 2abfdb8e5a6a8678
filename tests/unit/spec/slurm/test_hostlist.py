"""Hostlists are read in order and within limits; ClusterShell's NodeSet is the oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ClusterShell.NodeSet import NodeSet, NodeSetParseError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.spec.nodes import nodes_of
from corral.spec.slurm.hostlist import NODES_AT_MOST, expand, fold, fold_in_order, hosts
from tests.unit.spec.cases import LAB, changed, load_dict

CASES = json.loads((Path(__file__).parent / "hostlists.json").read_text())
"""What the page's reader is tested by too (tests/unit/web/js/hostlist.test.js)."""


@pytest.mark.parametrize(("hostlist", "names"), CASES["names"].items())
def test_order_is_kept(hostlist: str, names: list[str]) -> None:
    assert expand(hostlist) == names


@pytest.mark.parametrize(
    ("hostlist", "part"),
    [
        ("", ""), (",", ","), ("a,", "a,"), (",a", ",a"), ("a,,b", "a,,b"), ("node[0-2", "[0-2"),
        ("node0-2]", "node0-2]"), ("node[]", "[]"), ("node[x]", "[x]"), ("node[2-0]", "[2-0]"),
        ("node[-]", "[-]"), ("node[1-]", "[1-]"), ("node[1-2-3]", "[1-2-3]"), ("a[[0]]", "[[0]"),
        ("a[0-1][2-3]", "[2-3]"), ("a[0-1]0[2-3]", "[2-3]"),
        ("a[01-100]", "[01-100]"), ("a[1-010]", "[1-010]"),
        ("a[0-2/2]", "[0-2/2]"), ("a[\u0660-\u0662]", "[\u0660-\u0662]"), ("a[1,]", "[1,]"),
    ],
)  # fmt: skip
def test_broken_grammar_names_the_part(hostlist: str, part: str) -> None:
    with pytest.raises(CorralError) as error:
        expand(hostlist, strict=True)
    assert error.value.code is Code.PARSE_FAILED
    assert error.value.message.endswith(f': "{part}"')


@pytest.mark.parametrize(("hostlist", "names"), CASES["names"].items())
def test_ranges_have_the_names_and_no_others(hostlist: str, names: list[str]) -> None:
    ranges = hosts(hostlist)
    assert list(ranges) == names
    assert len(ranges) == len(names)
    others = [f"{name}0" for name in names] + [name[:-1] for name in names]
    others += [f"0{name}" for name in names] + [name.replace("0", "00") for name in names]
    for name in {*names, *others, "", "node", "node3", "n8", "r1", "r0"}:
        assert (name in ranges) == (name in names), name


def test_two_hostlists_are_compared_without_making_the_longer_one() -> None:
    all_nodes = hosts(f"n[00001-{NODES_AT_MOST - 1}],m0")
    assert all_nodes.meets(hosts("n[70000-70009],n00007"))
    assert hosts("n[70000-70009],m0").meets(all_nodes)
    assert not all_nodes.meets(hosts("n[70000-70009],n7"))


@pytest.mark.parametrize("hostlist", CASES["broken"])
def test_ranges_are_within_the_same_limits(hostlist: str) -> None:
    with pytest.raises(CorralError):
        hosts(hostlist)


def test_limits_are_kept_before_anything_is_made() -> None:
    assert len(expand(f"n[1-{NODES_AT_MOST}]")) == NODES_AT_MOST
    for bomb in (f"n[0-{NODES_AT_MOST}]", "n[0-999999999]", "a[0-999]b[0-999]c[0-999]"):
        with pytest.raises(CorralError, match="more than 65536"):
            expand(bomb)
    with pytest.raises(CorralError):
        expand("n[0-9999999999]")


PART = st.sampled_from(
    ["a", "b-", "n", "0", "7", ".", "-", ",", "[", "]", "[0-2]", "[08-11]", "[3]"]
)


@settings(max_examples=80, deadline=None)
@given(st.lists(PART, min_size=1, max_size=6).map("".join))
def test_the_same_names_as_clustershell(hostlist: str) -> None:
    # NodeSet 1.10.1 takes "[]0" for "0" and "[-0]" for "0", which no user means.
    assume("[]" not in hostlist and "[-" not in hostlist)
    try:
        expected = sorted(NodeSet(hostlist))
    except (NodeSetParseError, ValueError):  # NodeSet 1.10.1 trips over "[b-b-b-[0-2]" itself
        with pytest.raises(CorralError):
            expand(hostlist, strict=True)
        return
    assert sorted(set(expand(hostlist, strict=True))) == expected


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,2}", fullmatch=True), min_size=1, unique=True))
def test_fold_loses_no_name(names: list[str]) -> None:
    assert sorted(expand(fold(names))) == sorted(names)


def test_names_pair_with_their_addresses() -> None:
    """A set would sort both lists and give b's address to a."""
    data = changed(
        LAB, {"groups.0.nodes": "node0,b,a", "groups.0.addresses": "10.0.0.3,10.0.0.[1-2]"}
    )
    spec = load_dict(data).spec
    assert spec is not None
    pairs = [(node.name, node.address) for node in nodes_of(spec)][:3]
    assert pairs == [("node0", "10.0.0.3"), ("b", "10.0.0.1"), ("a", "10.0.0.2")]


NAMES = st.from_regex(r"[a-z][a-z-]{0,3}[0-9]{0,4}[a-z]?[0-9]{0,3}", fullmatch=True).filter(
    lambda name: name[-1] != "-"
)


@given(st.lists(NAMES, max_size=60))
def test_fold_keeps_names_and_order(names: list[str]) -> None:
    folded = fold_in_order(names)
    assert expand(folded) == names
    if names:
        assert set(map(str, NodeSet(folded))) == set(names)


@given(st.lists(st.integers(0, 1200), max_size=80), st.integers(1, 4))
def test_fold_keeps_padding(numbers: list[int], width: int) -> None:
    names = [f"n{number:0{width}}" for number in numbers]
    assert expand(fold_in_order(names)) == names


def test_fold_is_short() -> None:
    names = [f"node{i}" for i in range(10_000)]
    assert fold_in_order(names) == "node[0-9999]"
    assert fold_in_order(["n1", "n2", "n4", "x", "n5"]) == "n[1-2,4],x,n5"
    assert fold_in_order(["n098", "n099", "n100"]) == "n[098-100]"
    assert fold_in_order(["n98", "n99", "n100"]) == "n[98-100]"
    assert fold_in_order(["n8", "n09", "n10"]) == "n[8,09-10]"
    assert fold_in_order(["7", "8"]) == "7,8"
    assert fold_in_order([f"n{i:02}" for i in range(8, 102)]) == "n[08-99,100-101]"


@pytest.mark.parametrize("broken", CASES["broken"])
def test_broken_hostlist(broken: str) -> None:
    with pytest.raises(CorralError) as caught:
        expand(broken)
    assert caught.value.code is Code.PARSE_FAILED


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("n[8-10]", ["n8", "n9", "n10"]),
        ("n[098-100]", ["n098", "n099", "n100"]),
    ],
)
def test_what_slurm_and_a_cluster_file_read(hostlist: str, names: list[str]) -> None:
    assert expand(hostlist) == expand(hostlist, strict=True) == names


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("n[98-0100]", ["n98", "n99", "n100"]),
        ("n[09-11],,x,", ["n09", "n10", "n11", "x"]),
        ("r[0-1][2-3]", ["r02", "r03", "r12", "r13"]),
        ("n[08-101]", [*(f"n{i:02}" for i in range(8, 100)), "n100", "n101"]),
        ("", []),
    ],
)
def test_what_slurm_reads_and_a_cluster_file_refuses(hostlist: str, names: list[str]) -> None:
    assert expand(hostlist) == names
    with pytest.raises(CorralError):
        expand(hostlist, strict=True)
