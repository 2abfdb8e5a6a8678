"""The doctor on a mesh: what tailscale 1.102.5 reports, shortened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.doctor.machine_report import Ask, MachineReport, questions
from corral.doctor.probes import Scene
from corral.doctor.tailnet import tailnet
from corral.inspect.mesh import peers

ADDRESSES = {"node0": "100.64.0.1", "node1": "100.64.0.2"}
PEER = {"HostName": "node1", "TailscaleIPs": ["100.64.0.2"], "Online": True, "Active": True,
        "CurAddr": "198.18.1.11:41641", "Relay": "lab"}  # fmt: skip


def scene(peer: dict[str, Any] | None = None, **own: Any) -> Scene:
    mine = {"BackendState": own.pop("state", "Running"), "Online": "true"} | own
    clock, healthy = (
        {"clock": "1795320000.5 \n"},
        {"tailnet": "BackendState Running\nOnline true\n"},
    )
    lines = {"tailnet": "".join(f"{key} {value}\n" for key, value in mine.items())}
    peers = {"tailnet-peers": json.dumps({"Peer": {"k": PEER | (peer or {})}})}
    machines = {
        "node0": MachineReport("node0", clock | healthy | peers),
        "node1": MachineReport("node1", clock | lines),
    }
    return Scene("node0", ("node0", "node1"), machines, ADDRESSES)


def ids(of: Scene) -> list[tuple[str, tuple[str, ...]]]:
    return [(d.failure.id, d.nodes) for d in tailnet(of)]


def test_nothing_on_a_healthy_mesh_or_without_one() -> None:
    assert ids(scene(KeyExpiry="0001-01-01T00:00:00Z")) == []
    assert ids(scene(KeyExpiry="2027-06-01T00:00:00Z")) == []
    assert ids(Scene("node0", ("node0",), {"node0": MachineReport("node0")}, ADDRESSES)) == []
    assert "tailnet" not in {q.name for q in questions(Ask(("node0",), ()))}


@pytest.mark.parametrize(
    ("of", "finding"),
    [
        (scene(state="NeedsLogin"), ("F34", ("node1",))),
        (scene(KeyExpiry="2026-11-23T00:00:00Z"), ("F34", ("node1",))),
        (scene({"Expired": True}), ("F34", ("node1",))),
        (scene(state="Stopped"), ("F100", ("node1",))),
        (scene(Online="false"), ("F100", ("node1",))),
        (scene({"Online": False, "CurAddr": ""}), ("F100", ("node1",))),
        (scene({"CurAddr": ""}), ("F33", ("node0", "node1"))),
    ],
)
def test_what_is_ill(of: Scene, finding: tuple[str, tuple[str, ...]]) -> None:
    assert ids(of) == [finding]


@pytest.mark.parametrize("text", ["", "null", "[]", '{"Peer": 3}', "{"])
def test_peers_that_cannot_be_read_are_unknown_and_not_healthy(text: str) -> None:
    """They were none that is cut off."""
    of = scene()
    lead = {"tailnet": "BackendState Running\nOnline true\n", "tailnet-peers": text}
    machines = {**of.machines, "node0": MachineReport("node0", lead)}
    (diagnosis,) = tailnet(Scene("node0", ("node0", "node1"), machines, ADDRESSES))
    assert (diagnosis.failure.id, diagnosis.nodes) == ("F100", ("node0",))
    assert "whether other nodes are cut off is unknown" in diagnosis.evidence[0]


def test_a_tailnet_of_one_machine_has_no_peers() -> None:
    assert peers('{"Peer": null}') == peers('{"Peer": {}}') == ()


@pytest.mark.parametrize("text", ["", "null", "[]", '{"Peer": 3}', '{"Peer": {"a": null}}', "{"])
def test_an_answer_that_makes_no_sense_is_a_client_that_does_not_run(text: str) -> None:
    machines = {"node0": MachineReport("node0", {"tailnet": text, "tailnet-peers": text})}
    assert ids(Scene("node0", ("node0",), machines, ADDRESSES)) == [("F100", ("node0",))]
