"""RunPod's calls that list and end machines. Pure; copied to controllers (``cloud.calls``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from corral.providers.cloud.calls import BUSY, MISSING, Call, Rented, Steps, nothing
from corral.providers.cloud.model import Instance, Label, State, label_of, member_label
from corral.providers.cloud.response import amount, distinct, identity, moment, part, records

NAME: Final = "runpod"
GAPS: Final = MappingProxyType({"calls": 0.25, "launch": 0.5})
"""RunPod gives its limits in headers only; this stays well below what was seen."""

STATES: Final[Mapping[str, State]] = MappingProxyType(
    {
        "PROVISIONING": State.STARTING,
        "STARTING": State.STARTING,
        "RUNNING": State.RUNNING,
        "EXITED": State.STOPPED,
        "ERROR": State.BROKEN,
        "TERMINATED": State.GONE,
    }
)


def instances() -> Steps[tuple[Instance, ...]]:
    """All pods, also those of clusters: without the flag these cost money unseen (F56)."""
    pods = yield Call("GET", "/v2/pods", _pods, query={"includeClusterPods": "true"})
    if not any(pod.group for pod, _ in pods):
        return tuple(pod for pod, _ in pods)
    named = yield from clusters()
    return _labelled(pods, {group: label for group, (label, _) in named.items()})


def clusters() -> Steps[dict[str, tuple[Label, int]]]:
    """Label and size of Corral's Instant Clusters by their ids."""
    return (yield Call("GET", "/v2/clusters", _clusters))


def terminate(machines: Sequence[Rented]) -> Steps[None]:
    """Delete pods; one of a cluster can only be deleted with all of its cluster."""
    for group in dict.fromkeys(machine.group for machine in machines if machine.group):
        yield delete(f"/v2/clusters/{group}")
    for machine in machines:
        # After deleteCluster two pods were left and cost money for hours (F56).
        yield delete(f"/v2/pods/{machine.id}", *([BUSY] if machine.group else []))


def delete(path: str, *tolerated: str) -> Call:
    """Delete what may be gone already."""
    return Call("DELETE", path, nothing, tolerated=(MISSING, *tolerated))


def _clusters(data: Any) -> dict[str, tuple[Label, int]]:
    return {
        identity(cluster["id"]): (label, int(cluster["compute"]["podCount"]))
        for cluster in records(data["clusters"])
        if (label := label_of(str(cluster["name"])))
    }


def _pods(data: Any) -> tuple[tuple[Instance, int | None], ...]:
    """Pods, and the ranks that those of clusters have."""
    listed = records(data["pods"])
    ranks = {str(pod["id"]): part(pod, "cluster").get("rank") for pod in listed}
    return tuple(
        (pod, None if (rank := ranks[pod.id]) is None else int(rank))
        for pod in distinct(map(_instance, listed))
    )


def _labelled(
    pods: Sequence[tuple[Instance, int | None]], named: Mapping[str, Label]
) -> tuple[Instance, ...]:
    """Pods with the labels of their clusters; those without a rank yet take what ranks are free."""
    taken = {(pod.group, rank) for pod, rank in pods}
    labelled: list[Instance] = []
    for pod, known in sorted(pods, key=lambda pair: pair[0].id):
        rank = known
        if pod.group not in named:
            labelled.append(pod)
            continue
        if rank is None:
            rank = next(n for n in count() if (pod.group, n) not in taken)
            taken.add((pod.group, rank))
        label = member_label(named[pod.group], rank)
        labelled.append(replace(pod, label=label, rank=rank))
    return tuple(labelled)


def _instance(pod: Mapping[str, Any]) -> Instance:
    direct = part(part(pod, "ssh"), "direct")
    cluster = part(pod, "cluster")
    status = str(pod["status"])
    name = str(pod["name"])
    return Instance(
        NAME,
        identity(pod["id"]),
        name,
        label_of(name),
        STATES.get(status, State.BROKEN),
        str(direct.get("host", "")),
        str(cluster.get("ip") or part(pod, "globalNetworking").get("ip") or ""),
        int(direct.get("port", 22)),
        type=str(part(pod, "gpu").get("id", "")),
        region=str(pod["dataCenterId"] or ""),
        price=amount(pod["cost"]),
        created=moment(pod["createdAt"]),
        detail=status,
        group=identity(cluster["id"]) if cluster else "",
    )
