from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.providers.cloud.launcher import sort
from corral.providers.cloud.model import (
    LABEL_ROOM,
    NAME_AT_MOST,
    Instance,
    Label,
    State,
    label_of,
)
from corral.spec.rules import clouds

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,15}[a-z0-9]", fullmatch=True)
NODES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,15}[a-z0-9])?", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(NAMES, NODES, st.from_regex(r"[0-9a-f]{6}", fullmatch=True))
def test_label_survives_the_name(cluster: str, node: str, nonce: str) -> None:
    label = Label(cluster, node, nonce)
    assert label_of(label.name) == label
    assert label_of(label.name, cluster) == label
    assert label_of(label.name, f"{cluster}x") is None


def test_hyphens_do_not_move_a_node_to_another_cluster() -> None:
    first, second = Label("a", "b-c", "000001"), Label("a-b", "c", "000001")
    assert first.name != second.name
    assert label_of(first.name, "a-b") is None
    assert label_of(second.name, "a-b") == second


def test_names_of_others_are_no_labels() -> None:
    for name in (
        "",
        "corral",
        "corral-lab",
        "corral-lab-gpu0",
        "my-corral-lab-gpu0-0123456789abcd",
        "corral-lab-gpu0-0123456789abcd",
        "corral-lab-gpu0-0123456789ABCD",
    ):
        assert label_of(name) is None


def test_longest_label_fits() -> None:
    node = "n" * (LABEL_ROOM - 3)
    assert len(Label("lab", node, "abcdef").name) == NAME_AT_MOST
    assert clouds.LABEL_ROOM == LABEL_ROOM


def instance(node: str, state: State, identity: str = "i", cluster: str = "lab") -> Instance:
    label = Label(cluster, node, "00000a")
    return Instance("lambda", identity, label.name, label, state)


def test_of_two_the_running_one_stays() -> None:
    instances = [
        instance("gpu0", State.STARTING, "a"),
        instance("gpu0", State.RUNNING, "b"),
        instance("gpu1", State.GONE, "c"),
        instance("old", State.RUNNING, "d"),
        instance("gpu0", State.RUNNING, "e", cluster="other"),
    ]
    now = sort(instances, "lab", ["gpu0", "gpu1"])
    assert {n: i.id for n, i in now.nodes.items()} == {"gpu0": "b"}
    assert {i.id for i in now.surplus} == {"a", "d"}
