"""Orders to the simulated clouds of a rehearsal: capacity that runs out, machines that vanish.

``FOLDER/simulated.orders`` holds one JSON object by cloud; it is carried out once and removed::

    {"CLOUD": {"capacity": [["gpu_1x_h100_pcie", "us-west-1", 0]], "lame": {"gpu_1x_a10": 1},
               "breaking": ["gpu_1x_gh200"], "vanish": ["gpu0"]}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from corral.providers.cloud.model import label_of
from corral.testing.clouds.world import Sim

FILE: Final = "simulated.orders"


def carry_out(sims: Mapping[str, Sim], folder: Path) -> bool:
    """Carry out the file's orders; True when there was a file."""
    file = folder / FILE
    try:
        orders: dict[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        return False
    for cloud, order in orders.items():
        _change(sims[cloud], order)
    file.unlink()
    return True


def _change(sim: Sim, order: Mapping[str, Any]) -> None:
    """Change one cloud.

    capacity: machines that are still available by type and region. lame: how many next machines of
    a type come without their GPUs. breaking: types that never become usable. vanish: nodes whose
    machines the cloud takes back, as it does with preempted ones.
    """
    sim.capacity.update({(k, r): int(n) for k, r, n in order.get("capacity", ())})
    sim.lame.update({str(k): int(n) for k, n in order.get("lame", {}).items()})
    if "breaking" in order:
        sim.breaking = set(order["breaking"])
    for machine in sim.alive():
        label = label_of(machine.name)
        if label and label.node in order.get("vanish", ()):
            sim.terminate(machine)
