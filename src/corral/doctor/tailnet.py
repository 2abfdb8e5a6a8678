"""Rules over the mesh: a node out of it, a key that ends, a link by a relay. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, cast

from corral.doctor.look import Told
from corral.doctor.model import Diagnosis
from corral.doctor.probes import Scene, found
from corral.errors import BAD_JSON

SOON: Final = timedelta(days=14)


def tailnet(scene: Scene) -> Iterator[Diagnosis]:
    """F34: out of the tailnet, or soon; F100: cut off from it; F33: behind a relay."""
    for told in scene.heard:
        if "tailnet" in told.sections:
            yield from _own(told)
    yield from _peers(scene)


def _own(told: Told) -> Iterator[Diagnosis]:
    status = _status(told)
    state = str(status.get("BackendState", ""))
    own = _object(status.get("Self"))
    if state == "NeedsLogin":
        text = f"tailscaled of {told.node} reports {state}: its key has expired, or it was removed"
        yield found("F34", told.node, text, "corral up FILE brings it in again")
    elif state != "Running":
        yield found("F100", told.node, f"tailscaled of {told.node} reports {state or 'no state'}")
    elif own.get("Online") is False:
        text = f"{told.node} has no connection to the control server"
        yield found("F100", told.node, text, "its links last; whoever joins now is not seen by it")
    left = _left(str(own.get("KeyExpiry", "")), told)
    if state == "Running" and left is not None and left < SOON:
        text = f"the node key of {told.node} expires at {own['KeyExpiry']}"
        yield found("F34", told.node, text, f"in {max(left.days, 0)} days")


def _peers(scene: Scene) -> Iterator[Diagnosis]:
    """What the controller reports about the others; those that answered are not cut off from us."""
    if scene.lead.error is not None or "tailnet" not in scene.lead.sections:
        return
    known = {address: node for node, address in scene.addresses.items()}
    for peer in _object(_status(scene.lead).get("Peer")).values():
        one = _object(peer)
        node = next((known[a] for a in _texts(one.get("TailscaleIPs")) if a in known), "")
        if not node:
            continue
        if one.get("Expired") is True:
            yield found(
                "F34", node, f"the control server reports that the key of {node} has expired"
            )
        elif one.get("Online") is False:
            yield found("F100", node, f"the control server has no connection to {node}")
        elif one.get("Active") is True and one.get("Relay") and not one.get("CurAddr"):
            text = f"{scene.controller} to {node}: via DERP {one['Relay']}"
            yield found("F33", (scene.controller, node), text, f"relayed by {one['Relay']}")


def _status(told: Told) -> dict[str, Any]:
    try:
        return _object(json.loads(told.text("tailnet")))
    except BAD_JSON:
        return {}


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [str(one) for one in cast("list[Any]", value)] if isinstance(value, list) else []


def _left(text: str, told: Told) -> timedelta | None:
    """Until a key's end, by the node's own clock; None for one without (Go's year 1)."""
    if text.startswith("0001-"):
        return None
    try:
        end = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return end - datetime.fromtimestamp(float(told.text("clock").split()[0]), end.tzinfo)
    except (ValueError, IndexError, OverflowError, OSError):
        return None
