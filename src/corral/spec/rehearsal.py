"""Any cluster file mapped onto containers, to try it before real machines are touched."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from corral.spec.providers import CONTAINERS, PROVIDERS

SUFFIX: Final = "-rehearsal"
NAME_AT_MOST: Final = 40
MANY_NODES: Final = 16
_DIGEST_LENGTH: Final = 4


def rehearse(spec: ClusterSpec) -> ClusterSpec:
    """The same cluster in containers: same nodes, GPUs, partitions, users and controller.

    Pure. Addresses, logins, kinds of storage and the data interface go; ``rehearsal_notes`` lists
    what that means.
    """
    data: dict[str, Any] = spec.model_dump(mode="python")
    data["name"] = _name(spec.name)
    data["network"]["control"] = "provider"
    data["network"]["mesh"] = None
    if data["network"]["data"]:
        data["network"]["data"]["interface"] = None
    data["groups"] = tuple(_group(group) for group in data["groups"])
    data["storage"] = tuple(
        {**storage, "kind": "provider", "server": None, "path": None} for storage in data["storage"]
    )
    return ClusterSpec.model_validate(data, strict=True)


def rehearsal_notes(spec: ClusterSpec) -> list[str]:
    """What a rehearsal of this cluster cannot determine about the real one, in words."""
    notes = [*_machine_notes(spec), *_network_notes(spec), *_storage_notes(spec)]
    nodes = len(nodes_of(spec))
    if nodes > MANY_NODES:
        notes.append(
            f"{nodes} containers are many for one machine; declare fewer nodes in each group for a "
            "first try"
        )
    notes.append(f"the cluster is called {_name(spec.name)}; {spec.name} itself is not touched")
    return notes


def _machine_notes(spec: ClusterSpec) -> Iterator[str]:
    rented = [group for group in spec.groups if group.capabilities.rents]
    if rented:
        names = ", ".join(group.name for group in rented)
        yield f"{names}: rented from simulated clouds on this machine; prices are made up"
    real = [
        group
        for group in spec.groups
        if not (group.capabilities.containers or group.capabilities.rents)
    ]
    if not real:
        return
    names = ", ".join(group.name for group in real)
    yield (
        f"{names}: containers on this machine instead of machines of provider {real[0].provider}; "
        "they share its CPUs, memory, kernel and clock"
    )
    types = sorted({gpu.type for group in real for gpu in group.gpu_kinds})
    if types:
        yield (
            f"GPUs ({', '.join(types)}) are device files: Slurm counts and guards them, nothing "
            "computes on them, and drivers and CUDA are not tried"
        )
    yield (
        f"Slurm is what this machine's archive offers, if {spec.slurm.version} takes it; the real "
        "machines may have another version"
    )


def _network_notes(spec: ClusterSpec) -> Iterator[str]:
    if spec.network.control == "tailscale":
        yield (
            "nodes share one network instead of a tailnet: who joins how, links, islands and keys "
            "are not tried"
        )
    if any(group.addresses for group in spec.groups):
        yield f"addresses come from the {CONTAINERS} network; the declared ones are not tried"
    data = spec.network.data
    if data is None:
        return
    several = f"{data.nics} x " * (data.nics > 1)
    rate = f"{data.fabric}, {several}{data.gbps:g} Gb/s" if data.gbps else data.fabric
    yield (
        f"the data network ({rate}) is a bridge on this machine: what NCCL and storage reach there "
        "does not measure the real network"
    )
    if data.interface:
        yield f"interface {data.interface} is not looked for; nodes use the one of their address"


def _storage_notes(spec: ClusterSpec) -> Iterator[str]:
    real = {"nfs": "NFS", "existing": "what is mounted there on the real machines"}
    for storage in spec.storage:
        if storage.kind in real:
            yield f"{storage.mount}: a folder of this machine instead of {real[storage.kind]}"


def _group(group: dict[str, Any]) -> dict[str, Any]:
    can = PROVIDERS[group["provider"]]
    if can.containers:
        return {**group, "addresses": None}
    if can.rents:
        # The simulated clouds of corral.testing rent containers: all that renting does is tried.
        size = {"cpus": 1, "memory_gib": 1}  # what a container on any machine has
        elastic = {**group["elastic"], **size} if group["elastic"] else None
        return {**group, "addresses": None, "elastic": elastic}
    kept = {name: group[name] for name in ("name", "nodes", "gpu", "gpus", "features")}
    return {**kept, "provider": CONTAINERS, "image": "auto"}


def _name(name: str) -> str:
    """The rehearsal's name; a long one is cut, and made its own again by a digest of all of it."""
    if len(name) + len(SUFFIX) <= NAME_AT_MOST:
        return f"{name}{SUFFIX}"
    mark = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    room = NAME_AT_MOST - len(SUFFIX) - len(mark) - 1
    return f"{name[:room].rstrip('-_.')}-{mark}{SUFFIX}"
