"""What a rented machine will be, from its offer; in a rehearsal, what its container is. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from corral.inspect.facts import Facts
from corral.inspect.traits import Traits
from corral.providers.cloud.model import Offer
from corral.providers.containers import machine
from corral.providers.containers.container import devices


def facts(node: str, offers: Sequence[Offer], address: str) -> Facts:
    """As the first offer states; the system is Ubuntu 22.04, as all three give by default.

    Nothing is decided by it: what the machine holds is planned once it answers (decision 0006).
    """
    first = offers[0] if offers else None
    cpus = (first.vcpus if first else 0) or 1
    return Facts(
        node=node,
        os_id="ubuntu",
        os_version="22.04",
        kernel="",
        cpus=cpus,
        sockets=1,
        cores_per_socket=cpus,
        threads_per_core=1,
        memory_mib=(first.memory_mib if first else 0) or 1024,
        cgroup="v2",
        systemd=True,
        address=address,
    )


def rehearsed(gpus: int, nodes: int, shared: tuple[str, ...]) -> Traits:
    """A container of this machine that stands for a rented one.

    Args:
        gpus: its GPU device files.
        nodes: containers of the entire cluster, which share this machine's memory.
        shared: folders that all of them share.
    """
    return Traits(
        memory_mib=machine.memory_share(machine.host_memory_mib(), nodes),
        gpu_devices=devices(gpus),
        shared=shared,
        own_clock=False,
    )
