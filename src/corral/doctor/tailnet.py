"""Rules over the mesh: a node out of it, a key that ends, a link by a relay. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from corral.doctor.machine_report import MachineReport
from corral.doctor.model import Diagnosis
from corral.doctor.probes import Scene, finding
from corral.inspect.machine import CLOCK
from corral.inspect.mesh import TAILNET, TAILNET_PEERS
from corral.inspect.rules import key_ends


def tailnet(scene: Scene) -> Iterator[Diagnosis]:
    """F34: out of the tailnet, or soon; F100: cut off from it; F33: behind a relay."""
    for machine in scene.answered:
        own = machine.get(TAILNET)
        if own is not None:
            yield from _own(machine, own)
    yield from _peers(scene)


def _own(machine: MachineReport, own: Mapping[str, str]) -> Iterator[Diagnosis]:
    state = own.get("BackendState", "")
    if state == "NeedsLogin":
        text = (
            f"tailscaled of {machine.node} reports {state}: its key has expired, or it was removed"
        )
        yield finding("F34", machine.node, text, "corral up FILE joins it again")
    elif state != "Running":
        yield finding(
            "F100", machine.node, f"tailscaled of {machine.node} reports {state or 'no state'}"
        )
    elif own.get("Online") == "false":
        text = f"{machine.node} has no connection to the control server"
        yield finding(
            "F100", machine.node, text, "its links stay up; it does not see machines that join now"
        )
    left = key_ends(own.get("KeyExpiry", ""), _now(machine))
    if state == "Running" and left is not None:
        text = f"the node key of {machine.node} expires at {own['KeyExpiry']}"
        yield finding("F34", machine.node, text, f"in {max(left.days, 0)} days")


def _peers(scene: Scene) -> Iterator[Diagnosis]:
    """What the controller reports about the others; those that answered are not cut off from us."""
    if scene.lead.error is not None:
        return
    known = {address: node for node, address in scene.addresses.items()}
    peers = scene.lead.get(TAILNET_PEERS)
    if peers is None and (scene.lead.get(TAILNET) or {}).get("BackendState") == "Running":
        if TAILNET_PEERS.name in scene.lead.sections:
            text = (
                f"whether other nodes are cut off is unknown: tailscale status on "
                f"{scene.controller} gives nothing that can be read"
            )
            yield finding("F100", scene.controller, text)
        return
    for peer in peers or ():
        node = next((known[address] for address in peer.addresses if address in known), "")
        if not node:
            continue
        if peer.expired:
            yield finding(
                "F34", node, f"the control server reports that the key of {node} has expired"
            )
        elif peer.offline:
            yield finding("F100", node, f"the control server has no connection to {node}")
        elif peer.relay:
            text = f"{scene.controller} to {node}: via DERP {peer.relay}"
            yield finding("F33", (scene.controller, node), text, f"relayed by {peer.relay}")


def _now(machine: MachineReport) -> datetime | None:
    """The node's own clock; None where it cannot be read."""
    clock = machine.get(CLOCK)
    try:
        return None if clock is None else datetime.fromtimestamp(clock, UTC)
    except (ValueError, OverflowError, OSError):
        return None
