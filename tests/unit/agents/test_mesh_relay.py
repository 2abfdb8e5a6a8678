"""The relay's small parts; that it relays is tested on the real thing (tests/mesh)."""

from __future__ import annotations

import runpy
from pathlib import Path

PROGRAM = Path(__file__).parents[3] / "src/corral/agents/mesh_relay.py"


def test_ports() -> None:
    ports = runpy.run_path(str(PROGRAM))["ports"]
    assert ports(["6817", "60001-60003"]) == [6817, 60001, 60002, 60003]
    assert ports([]) == []
