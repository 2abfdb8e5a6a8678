"""Containers, networks and images of a cluster: read-only questions to podman."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from corral.errors import Code, CorralError
from corral.providers.base import Machine, Observed
from corral.providers.containers import (
    layout,
    machine,
    stale_objects,
)
from corral.providers.containers.gpus import host_gpus
from corral.providers.containers.podman import Fields, Podman, bridge, subnets
from corral.runtime.tasks import concurrently
from corral.spec.nodes import Node

Network = ipaddress.IPv4Network
COMES_S: Final = 60.0
BOOT_S: Final = 60.0
"""Seconds from a container's start until its sshd answers, at most."""


async def read_machines(
    podman: Podman,
    *,
    cluster: str,
    nodes: Sequence[Node],
    pinned: Mapping[str, str],
) -> Observed:
    """One question about containers and one about networks, at once."""
    containers, networks = await _asked(podman, cluster)
    name = layout.network(cluster)
    left = await stale_objects.find(podman, name, bridge(name, networks))
    return read(
        cluster,
        nodes,
        containers=containers,
        networks=networks,
        pinned=pinned,
        routes=machine.host_routes(),
        contested=left.addresses,
    )


async def _asked(podman: Podman, cluster: str) -> tuple[list[Fields], list[Fields]]:
    """Containers and networks; read again when podman's state was from before a reboot.

    Raises:
        CorralError: podman's message.
    """
    label = f"label={layout.CLUSTER}={cluster}"
    again = False
    while True:
        try:
            containers, networks = await concurrently(
                podman.records("ps", "--all", "--filter", label), podman.records("network", "ls")
            )
        except CorralError as error:
            if again or error.code is not Code.PROVIDER_FAILED:
                raise
        else:
            if again or all(_alive(f) for f in containers if f["State"] == "running"):
                return containers, networks
        again = True
        await asyncio.to_thread(stale_objects.clear, stale_objects.Places.of(podman.base))


async def held_by_others(podman: Podman, cluster: str) -> dict[str, str]:
    """By uuid of a GPU of this machine: the container of another cluster that has it."""
    containers = await podman.records("ps", "--all", "--filter", f"label={layout.GPUS}")
    return {
        uuid: str(fields["Names"][0])
        for fields in containers
        if fields["Labels"].get(layout.CLUSTER) != cluster
        for uuid in host_gpus.labelled(fields["Labels"][layout.GPUS])
    }


def _alive(fields: Fields) -> bool:
    return machine.carries(int(fields["Pid"]), str(fields["Id"]))


def read(
    cluster: str,
    nodes: Sequence[Node],
    *,
    containers: Iterable[Fields],
    networks: Iterable[Fields],
    pinned: Mapping[str, str],
    routes: Iterable[Network],
    contested: Collection[str] = (),
) -> Observed:
    """Podman's answers as machines; nodes that are not there get the address they will have."""
    seen = {m.node: m for m in (_machine(fields, pinned, contested) for fields in containers)}
    net = _network(cluster, len(nodes), networks, routes)
    addresses = layout.addresses(net, nodes, {m.node: m.address for m in seen.values()})
    absent = {n: Machine(n, False, False, a, enrolled=False) for n, a in addresses.items()}
    return Observed(
        machines={n.name: seen.get(n.name, absent[n.name]) for n in nodes},
        strays=tuple(sorted(seen.keys() - addresses.keys())),
        network=str(net),
    )


def _machine(fields: Fields, pinned: Mapping[str, str], contested: Collection[str]) -> Machine:
    labels: Mapping[str, str] = fields["Labels"]
    node, identity = labels[layout.NODE], str(fields["Id"])
    return Machine(
        node=node,
        exists=True,
        running=fields["State"] == "running" and _alive(fields),
        address=labels[layout.ADDRESS],
        enrolled=pinned.get(node) == identity,
        made_from=labels[layout.SPEC],
        memory_mib=int(labels[layout.MEMORY]),
        gpus=host_gpus.labelled(labels.get(layout.GPUS, "")),
        boots_until=float(fields.get("StartedAt") or 0) + BOOT_S,
        contested=labels[layout.ADDRESS] in contested,
    )


def _network(
    cluster: str, nodes: int, networks: Iterable[Fields], routes: Iterable[Network]
) -> Network:
    known = {
        name: [net for text in given if isinstance(net := ipaddress.ip_network(text), Network)]
        for name, given in map(subnets, networks)
    }
    own = known.get(layout.network(cluster))
    if own:
        return own[0]
    return layout.subnet(cluster, nodes, [*(n for nets in known.values() for n in nets), *routes])


async def runs(podman: Podman, name: str) -> bool:
    """True while the container runs."""
    end = await podman.ended("inspect", "--format", "{{.State.Running}}", name)
    return end.stdout.strip() == b"true"


async def comes(podman: Podman, name: str, made_from: str) -> bool:
    """True once the container that somebody else is making runs; False when it is another one.

    Args:
        podman: what is asked.
        name: the container's.
        made_from: digest of what was declared, as the label states it.
    """
    label = f'{{{{index .Config.Labels "{layout.SPEC}"}}}}'
    end = time.monotonic() + COMES_S
    while time.monotonic() < end:
        # The name is taken before podman knows the container.
        seen = await podman.ended("inspect", "--format", label, name)
        if seen.status == 0 and seen.stdout.strip().decode() != made_from:
            return False
        if await runs(podman, name):
            return True
        await asyncio.sleep(0.1)
    return False


async def last_lines(podman: Podman, name: str) -> str:
    """The journal's last lines of a node, or what the container printed when it is down."""
    end = await podman.ended("exec", name, "journalctl", "-b", "-n", "15", "--no-pager")
    if end.status != 0:
        end = await podman.ended("logs", "--tail", "15", name)
    return (end.stdout or end.stderr).decode(errors="replace").strip()
