"""Which causes took nodes out of service, and which of them count."""

from __future__ import annotations

import pytest

from corral.doctor.lemons import cause_of, causes_of
from corral.slurm.records import Outage
from corral.slurm.text import readable_outages
from corral.state.base import ROLL_TAG
from corral.state.slurm.members import REPLACED


def outage(reason: str, node: str = "n1") -> Outage:
    return Outage(node, 100, 200, "DRAIN", "root", reason)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("", None),
        (f"{ROLL_TAG}a new kernel", None),
        ("Planned: new memory", None),
        ("planned", None),
        ("health.gpus: 7 of 8 GPUs", "health.gpus"),
        ("Not responding", "F83"),
        ("GPU 3 is  hot", "gpu is hot"),
    ],
)
def test_the_cause_that_a_reason_names(reason: str, cause: str | None) -> None:
    named = cause_of(outage(reason))
    assert (named.id if named else None) == cause


def test_each_cause_of_a_node_counts_once() -> None:
    """Numbers aside: two GPUs that are hot are one cause, and another node has its own."""
    seen = causes_of(
        [
            outage("GPU 3 is hot"),
            outage("gpu 5 is hot"),
            outage("no link", "n2"),
            outage("planned work"),
        ],
        nodes=4,
    )
    assert {node: list(causes) for node, causes in seen.items()} == {
        "n1": ["gpu is hot"],
        "n2": ["no link"],
    }


def test_a_cause_of_half_of_the_nodes_is_not_a_machines() -> None:
    """Such as a wrong line of slurm.conf, or a switch."""
    seen = [outage("no link"), outage("no link", "n2"), outage("it smells")]
    assert [list(each) for each in causes_of(seen, 4).values()] == [["it smells"], []]
    assert [list(each) for each in causes_of(seen, 5).values()] == [
        ["no link", "it smells"],
        ["no link"],
    ]
    assert [list(each) for each in causes_of([outage("no link")], 1).values()] == [["no link"]]


def test_outages_are_read_in_order_and_broken_lines_are_left_out() -> None:
    """Of the cluster itself there are lines without a node; a reason may hold the mark."""
    text = (
        "n1|300|Unknown|DRAIN*|root(0)|cpu=2,gres/gpu=2|a|b \n"
        "n1|100|200|DOWN|slurm(64030)||\n"
        "|50|Unknown|||cpu=2|Cluster Registered TRES\n"
        "n1|100|"
    )
    assert readable_outages(text) == (
        Outage("n1", 100, 200, "DOWN", "slurm", ""),
        Outage("n1", 300, None, "DRAIN*", "root", "a|b", "cpu=2,gres/gpu=2"),
    )


def test_what_was_before_another_machine_is_not_the_new_ones() -> None:
    seen = [
        outage("no link"),
        outage("it smells"),
        outage("no link", "n2"),
        outage(REPLACED),
        outage("GPU 3 is hot"),
    ]
    assert {node: list(causes) for node, causes in causes_of(seen, 8).items()} == {
        "n1": ["gpu is hot"],
        "n2": ["no link"],
    }
    assert cause_of(outage(REPLACED)) is None
