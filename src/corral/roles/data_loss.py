"""What is gone for good with a machine that is made again or removed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from corral.roles.services import mlflow
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, nodes_of


def lost_with(specs: Iterable[ClusterSpec], node: str) -> str:
    """What only this machine holds, in words; "" for nothing but what an apply makes again.

    Args:
        specs: the cluster as the file declares it now and as it was applied before: what a node
            held under an earlier declaration is still on it.
        node: the machine.
    """
    known = [spec for spec in specs if node in {n.name for n in nodes_of(spec)}]
    if not known:
        return "unknown: no record here of what it was for"
    return ", ".join(dict.fromkeys(line for spec in known for line in _lost(spec, node)))


def controller_moved(before: ClusterSpec, spec: ClusterSpec) -> str:
    """What another controller than before begins without; "" where it is the same machine.

    Args:
        before: the cluster as it was applied last.
        spec: the cluster as the file declares it now.
    """
    old, new = (
        {n.name: n for n in nodes_of(cluster)}[controller_of(cluster)] for cluster in (before, spec)
    )
    owned = old.group.capabilities.owned and new.group.capabilities.owned
    same = owned and (old.address, old.group.ssh.port) == (new.address, new.group.ssh.port)
    if old.name == new.name or (same and old.address):
        return ""
    return (
        f"the controller was {old.name} and is {new.name} in the file: {new.name} begins without "
        f"{', '.join(_lost(before, old.name))}; write controller: {old.name} to keep them"
    )


def _lost(spec: ClusterSpec, node: str) -> Iterator[str]:
    if node == controller_of(spec):
        yield "the job queue (pending and running jobs end, job ids begin at 1 again)"
        if spec.slurm.accounting:
            yield "the accounting history, with its usage and fair-share"
        yield "the cluster's keys and tokens (new ones are made)"
        if spec.services.mlflow:
            yield f"the runs of MLflow ({mlflow.HOME})"
    for storage in spec.storage:
        if storage.kind == "nfs" and storage.server == node:
            yield f"the files of {storage.mount} that it serves from {storage.path}"
