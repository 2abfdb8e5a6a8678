"""Rules over the kernel's namespaces: what users may make, what a daemon was put in. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from corral.doctor.model import Diagnosis
from corral.doctor.probes import Scene, found


def user_namespaces(scene: Scene) -> Iterator[Diagnosis]:
    """F20: nobody may make a user namespace there, which Enroot does for each container."""
    for told in scene.heard:
        said = told.lines("userns")
        if said and said[-1] == "refused":
            text = said[0] if len(said) > 1 else "unshare -Ur, as nobody: no answer in 10 s"
            yield found("F20", told.node, text)


def alone(scene: Scene) -> Iterator[Diagnosis]:
    """F54: a daemon whose network has no address but loopback's, whatever the machine has.

    Slurm 24.11 then reports names that do resolve as unresolvable.
    """
    for told in scene.heard:
        for unit in told.lines("alone"):
            yield found("F54", told.node, f"{unit} has no address but 127.*", unit)
