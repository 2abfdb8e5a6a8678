"""Rules over the kernel's namespaces: what users may make, what a daemon was put in. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from corral.doctor.model import Diagnosis
from corral.doctor.probes import Scene, finding


def user_namespaces(scene: Scene) -> Iterator[Diagnosis]:
    """F20: nobody may make a user namespace there, which Enroot does for each container."""
    for machine in scene.answered:
        lines = machine.lines("userns")
        if lines and lines[-1] == "refused":
            text = lines[0] if len(lines) > 1 else "unshare -Ur, as nobody: no answer in 10 s"
            yield finding("F20", machine.node, text)


def alone(scene: Scene) -> Iterator[Diagnosis]:
    """F54: a daemon whose network has no address but loopback's, whatever the machine has.

    Slurm 24.11 then reports names that do resolve as unresolvable.
    """
    for machine in scene.answered:
        for unit in machine.lines("alone"):
            yield finding("F54", machine.node, f"{unit} has no address but 127.*", unit)
