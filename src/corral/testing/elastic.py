"""One real Slurm on this machine whose nodes come and go, decided as ``corral elastic`` decides.

Machines are whatever the caller starts: processes, containers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from corral.elastic import marks
from corral.elastic.marks import Marks
from corral.events import ignore
from corral.inspect.jobs import PLACED
from corral.inspect.slurm import NODES
from corral.providers.containers.image import Images
from corral.providers.containers.machine import host_limits, host_runtime
from corral.providers.containers.podman import Podman
from corral.roles.slurm.elastic_nodes import times
from corral.slurm.conf.conf_file import assembled
from corral.slurm.version import SlurmVersion

READ: Final = str(NODES.shell)
READ_JOBS: Final = str(PLACED.shell)
"""Shell whose output ``decided`` and ``groups`` take."""


def power_lines(*, idle: int, boot: int, end: int) -> str:
    """Corral's keys of slurm.conf for nodes that come and go; all seconds."""
    settings = times(idle=idle, boot=boot, end=end)
    return assembled("slurm.conf", SlurmVersion(24, 11), settings).text


def decided(
    text: str, rented: Collection[str], joined: Collection[str], names: tuple[str, ...]
) -> Marks:
    """What ``corral elastic`` does now about these nodes.

    Args:
        text: what ``READ`` printed.
        rented: nodes that have a machine.
        joined: nodes that were set up.
        names: all nodes.
    """
    return marks.decide(marks.states(NODES.parse(text)), rented, joined, {"n": (names, 0)})


def groups(come: Collection[str], text: str) -> list[tuple[str, ...]]:
    """Nodes that come together or not at all; ``text`` is what ``READ_JOBS`` printed."""
    return marks.together(come, marks.nodes_of_jobs(PLACED.parse(text)).values())


async def container(name: str) -> list[str]:
    """The command line of podman that starts Corral's node image as an idle container."""
    image = await Images(Podman(host_runtime())).ensure("auto", ignore)
    limits = [w for k, v in sorted(host_limits().items()) for w in ("--ulimit", f"{k}={v}:{v}")]
    return [
        *("podman", *host_runtime(), "run", "--detach", "--privileged", "--name", name, *limits),
        *("--hostname", "desk", "--pids-limit=-1", "--network", "none"),
        *("--entrypoint", '["sleep", "infinity"]', image),
    ]


def podman() -> list[str]:
    """Podman with the options that this machine needs."""
    return ["podman", *host_runtime()]
