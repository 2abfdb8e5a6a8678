"""What is gone for good with a machine that is made again or removed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from corral.roles import mlflow
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of


def lost_with(spec: ClusterSpec, node: str) -> str:
    """What only this machine holds, in words; "" for nothing but what an apply makes again.

    Args:
        spec: the cluster as the file declares it now.
        node: the machine.
    """
    return ", ".join(_lost(spec, node))


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
