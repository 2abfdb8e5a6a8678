"""Names, labels, addresses and digests of the objects of a cluster in containers. Pure."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from corral.errors import Code, CorralError
from corral.spec.models import Storage
from corral.spec.nodes import Node

Network = ipaddress.IPv4Network

CLUSTER: Final = "corral.cluster"
NODE: Final = "corral.node"
SPEC: Final = "corral.spec"
ADDRESS: Final = "corral.address"
MEMORY: Final = "corral.memory"
MOUNT: Final = "corral.mount"
GPUS: Final = "corral.gpus"

POOL: Final = Network("10.160.0.0/11")
FIRST_HOST: Final = 10
ROOM: Final = 200


def container(cluster: str, node: str) -> str:
    """Name of a node's container."""
    return f"corral-{cluster}-{node}"


def network(cluster: str) -> str:
    """Name of the cluster's network."""
    return f"corral-{cluster}"


def volume(cluster: str, mount: str) -> str:
    """Name of the volume behind a shared folder; it stays the same when others come or go."""
    return f"corral-{cluster}-shared-{hashlib.sha256(mount.encode()).hexdigest()[:8]}"


def shared(storage: Iterable[Storage]) -> tuple[str, ...]:
    """Folders that the provider shares."""
    return tuple(s.mount for s in storage if s.kind == "provider")


def made_from(node: Node, mounts: tuple[str, ...], own: Sequence[str] = ()) -> str:
    """Digest of all that only a new container can change.

    An automatic image is not a part of it: a newer Corral must not throw running nodes away.

    Args:
        node: the node.
        mounts: folders that the provider shares.
        own: version of this machine's driver and uuids of its GPUs that the node has.
    """
    group = node.group
    properties = {
        "name": node.name,
        "image": group.image,
        "gpus": list(own) or group.gpu_count,
        "memory": group.memory_mib,
        "mounts": sorted(mounts),
    }
    return hashlib.sha256(json.dumps(properties, sort_keys=True).encode()).hexdigest()[:16]


def subnet(cluster: str, nodes: int, used: Iterable[Network]) -> Network:
    """A free subnet for the cluster; the same one for the same name as long as it is free.

    Raises:
        CorralError: PROVIDER_FAILED, none is free.
    """
    prefix = 24
    while Network(f"0.0.0.0/{prefix}").num_addresses - 2 - FIRST_HOST < nodes * 256 // ROOM:
        prefix -= 1
    count, size = 1 << (prefix - POOL.prefixlen), 1 << (32 - prefix)
    taken = tuple(used)
    start = int(hashlib.sha256(cluster.encode()).hexdigest(), 16) % count
    for index in (*range(start, count), *range(start)):
        candidate = Network((int(POOL.network_address) + index * size, prefix))
        if not any(candidate.overlaps(other) for other in taken):
            return candidate
    raise CorralError(
        Code.PROVIDER_FAILED,
        f"no free network with room for {nodes} nodes in {POOL}",
        hint="remove clusters or networks not needed: corral down, podman network ls",
    )


def addresses(net: Network, nodes: Iterable[Node], known: Mapping[str, str]) -> dict[str, str]:
    """Address of each node: the one it has, else the lowest free one; the order is the file's.

    Raises:
        CorralError: PROVIDER_FAILED, the network is full.
    """
    taken = set(known.values())
    free = (str(net[i]) for i in range(FIRST_HOST, net.num_addresses - 1))
    by_node: dict[str, str] = {}
    for node in nodes:
        address = known.get(node.name) or next((a for a in free if a not in taken), "")
        if not address:
            raise CorralError(
                Code.PROVIDER_FAILED,
                f"the network {net} has no room for {node.name}",
                node=node.name,
                hint="corral down, then corral up: the new network will be large enough",
            )
        by_node[node.name] = address
    return by_node


def mac(address: str) -> str:
    """A locally administered MAC address made from an IPv4 address, so that both stay together."""
    return ":".join(
        ("0a", "58", *(f"{byte:02x}" for byte in ipaddress.IPv4Address(address).packed))
    )


def labels(pairs: Mapping[str, str]) -> list[str]:
    """Labels as podman arguments."""
    return [part for key, value in pairs.items() for part in ("--label", f"{key}={value}")]
