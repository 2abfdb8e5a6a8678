"""Verdicts on the network between nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.errors import CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.measurement import Remark
from corral.prove.measure.network import Expected, Links, judge_links, matrix_of, read_links

NODES = ("n0", "n1", "n2", "n3")


def member(node: str, **changes: Any) -> dict[str, Any]:
    return {
        "node": node,
        "interface": "eth0",
        "address": "10.0.0.1",
        "mtu": 1500,
        "speed": 1000,
        "physical": True,
        **changes,
    }


def flow(source: str, target: str, **changes: Any) -> dict[str, Any]:
    return {
        "from": source,
        "to": target,
        "gbps": 0.94,
        "bytes": 100_000_000,
        "tx": {"eth0": 104_000_000},
        "rx": {"eth0": 104_000_000},
        "retransmits": 3,
        "rtt_us": 90.0,
        "path_mtu": 1500,
        "alone": False,
        **changes,
    }


def links(
    members: dict[str, dict[str, Any]] | None = None,
    flows: dict[tuple[str, str], dict[str, Any]] | None = None,
    more: tuple[dict[str, Any], ...] = (),
) -> Links:
    listed = [member(n, **(members or {}).get(n, {})) for n in NODES]
    pairs = [(a, b) for a in NODES for b in NODES if a != b]
    measured = [flow(a, b, **(flows or {}).get((a, b), {})) for a, b in pairs]
    lines = [f"@@corral-members {json.dumps({'members': listed})}"]
    lines += [f"2: @@corral-flow {json.dumps(entry)}" for entry in (*measured, *more)]
    return read_links(["noise", *lines])


def around(node: str, **changes: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(a, b): changes for a in NODES for b in NODES if a != b and node in (a, b)}


def bad(remarks: tuple[Remark, ...]) -> list[tuple[Outcome, str, str]]:
    return [
        (r.outcome, r.about, r.failure)
        for r in remarks
        if r.outcome in (Outcome.FAIL, Outcome.WARN)
    ]


def test_a_node_to_which_packets_are_lost_is_named_once() -> None:
    """A card that receives badly: three ways lead to it, and all of them lose packets."""
    to = {(a, "n2"): {"retransmits": 2000} for a in NODES if a != "n2"}
    (remark, _) = judge_links(links(flows=to), Expected())
    assert (remark.outcome, remark.about) == (Outcome.WARN, "n2")
    assert "from every other node to n2 up to 2.9% of the segments" in remark.text
    away = {("n2", b): {"retransmits": 2000} for b in NODES if b != "n2"}
    (remark, _) = judge_links(links(flows=away), Expected())
    assert "from n2 to every other node" in remark.text
    del to["n0", "n2"]
    assert [r.about for r in judge_links(links(flows=to), Expected())[:2]] == [
        "n1 to n2",
        "n3 to n2",
    ]


def test_a_healthy_network_passes() -> None:
    remarks = judge_links(links(), Expected(gbps=1))
    assert [r.outcome for r in remarks] == [Outcome.PASS]
    assert "12 links carry 0.94 to 0.94 Gb/s" in remarks[0].text


def test_without_a_declared_rate_figures_are_kept_and_not_judged() -> None:
    assert [r.outcome for r in judge_links(links(), Expected())] == [Outcome.UNKNOWN]


@pytest.mark.parametrize(
    ("seen", "declared", "outcome", "about", "failure"),
    [
        (links({"n1": {"speed": 100}}), Expected(gbps=1), Outcome.FAIL, "n1", ""),
        (
            links({"n1": {"mtu": 9000}}, around("n1", path_mtu=9000)),
            Expected(),
            Outcome.WARN,
            "n[0-3]",
            "F28",
        ),
        (links({"n2": {"mtu": 1400}}), Expected(mtu=1500), Outcome.FAIL, "n2", "F28"),
        (links(flows=around("n3", path_mtu=1400)), Expected(), Outcome.FAIL, "n3", "F28"),
        (
            links(flows={("n0", "n1"): {"path_mtu": 1400}}),
            Expected(),
            Outcome.FAIL,
            "n0 to n1",
            "F28",
        ),
        (links(flows={("n0", "n1"): {"path_mtu": 0}}), Expected(), Outcome.WARN, "n0 to n1", "F18"),
        (
            links(flows={("n0", "n1"): {"tx": {"eth1": 10**8, "eth0": 9}}}),
            Expected(),
            Outcome.FAIL,
            "n0",
            "F37",
        ),
        (
            links(flows={("n0", "n1"): {"rx": {"wlan0": 10**8}}}),
            Expected(),
            Outcome.FAIL,
            "n1",
            "F37",
        ),
        (links(flows=around("n2", gbps=0.1)), Expected(gbps=1), Outcome.FAIL, "n2", ""),
        (
            links(flows={("n2", "n3"): {"gbps": 0.1}}),
            Expected(gbps=1),
            Outcome.FAIL,
            "n2 to n3",
            "",
        ),
        (
            links(flows={("n2", "n3"): {"gbps": 0.8}}),
            Expected(gbps=1),
            Outcome.WARN,
            "n2 to n3",
            "",
        ),
        (
            links(flows={("n2", "n3"): {"gbps": 0.5}}),
            Expected(usual=0.9),
            Outcome.FAIL,
            "n2 to n3",
            "",
        ),
        (
            links(flows={("n0", "n2"): {"retransmits": 2000}}),
            Expected(),
            Outcome.WARN,
            "n0 to n2",
            "",
        ),
        (links(flows={("n0", "n2"): {"rtt_us": 900.0}}), Expected(), Outcome.WARN, "n0 to n2", ""),
    ],
)
def test_each_fault_is_named(
    seen: Links, declared: Expected, outcome: Outcome, about: str, failure: str
) -> None:
    assert bad(judge_links(seen, declared)) == [(outcome, about, failure)]


def test_an_interface_that_is_not_there_is_reported_and_nothing_else() -> None:
    absent = member("n0", interface="eth7", address="", mtu=0)
    seen = read_links([f"@@corral-members {json.dumps({'members': [absent]})}"])
    (remark,) = judge_links(seen, Expected(interface="eth7"))
    assert (remark.outcome, remark.failure) == (Outcome.FAIL, "F26")
    assert "there is no interface eth7" in remark.text


def test_a_link_that_is_slow_only_while_others_are_busy_is_shared() -> None:
    slow = {("n0", "n1"): {"gbps": 0.4}}
    seen = links(flows=slow, more=(flow("n0", "n1", gbps=0.93, alone=True),))
    (remark,) = [r for r in judge_links(seen, Expected(gbps=1)) if r.outcome is Outcome.WARN]
    assert "only while others are busy" in remark.text


def test_the_matrix_has_the_better_of_both_measurements() -> None:
    seen = links(flows={("n0", "n1"): {"gbps": 0.4}}, more=(flow("n0", "n1", alone=True),))
    matrix = matrix_of(seen, Expected(gbps=1))
    assert matrix.cells[0] == (None, 0.94, 0.94, 0.94)
    assert matrix.fail == pytest.approx(0.94 * 0.7)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["@@corral-members {}"],
        ["@@corral-members {"],
        ["@@corral-members []"],
        ['@@corral-members {"members": []}', '@@corral-flow {"from": "a"}'],
    ],
)
def test_a_spoiled_answer_is_an_error(lines: list[str]) -> None:
    with pytest.raises(CorralError) as caught:
        read_links(lines)
    assert caught.value.code.value == "parse-failed"
