"""Data sets: made on shared storage, and whether the storage feeds the GPUs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.jobs import datasets
from corral.jobs.datasets import DataSet, Rate
from corral.shards import SIZE
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of, partitions_of, users_of


@dataclass(frozen=True, slots=True)
class Fed:
    """How fast nodes read a data set, and what their GPUs consume.

    Attributes:
        folder: the data set.
        alone: each node while the others read nothing.
        together: each node while all read.
        needs: samples a second that each node needs, by node; empty when that is not known.
    """

    folder: str
    alone: tuple[Rate, ...]
    together: tuple[Rate, ...]
    needs: dict[str, float]

    @property
    def starving(self) -> tuple[str, ...]:
        """Nodes that get less than they need while all read."""
        return tuple(
            rate.node
            for rate in self.together
            if rate.samples_per_second < self.needs.get(rate.node, 0.0)
        )

    def as_dict(self) -> dict[str, Any]:
        """Rates are MB (1e6 bytes) and samples a second."""
        alone = {rate.node: rate for rate in self.alone}
        return {
            "folder": self.folder,
            "nodes": [
                {
                    "node": rate.node,
                    "alone_mb_s": round(alone[rate.node].megabytes_per_second, 1),
                    "alone_samples_s": round(alone[rate.node].samples_per_second, 1),
                    "together_mb_s": round(rate.megabytes_per_second, 1),
                    "together_samples_s": round(rate.samples_per_second, 1),
                    "needs_samples_s": self.needs.get(rate.node),
                }
                for rate in self.together
            ],
            "total_mb_s": round(sum(r.megabytes_per_second for r in self.together), 1),
            "total_samples_s": round(sum(r.samples_per_second for r in self.together), 1),
            "starving": list(self.starving),
        }


async def shard_data(
    spec: ClusterSpec,
    folder: str,
    emit: Emit = ignore,
    *,
    name: str = "",
    size: int = SIZE,
    labels: bool = False,
    user: str = "",
) -> DataSet:
    """Make WebDataset shards of a folder, on the first shared storage.

    Existing shards are not made again, so an interrupted run resumes.

    Args:
        spec: the cluster.
        folder: of this machine, or one under a shared mount of the cluster.
        emit: receives an event for each shard.
        name: of the data set; "" for the folder's.
        size: bytes of each shard, about.
        labels: the first folder of each sample's path is its class.
        user: who owns it; "" for the cluster's first user.

    Raises:
        CorralError: USAGE, no storage, no such user, or no samples; COMMAND_FAILED.
    """
    owner, mount = _owner(spec, user), _mount(spec)
    chosen = _checked_name(name or PurePosixPath(folder).name)
    here = await asyncio.to_thread(Path(folder).is_dir)
    if not here and not any(PurePosixPath(folder).is_relative_to(s.mount) for s in spec.storage):
        raise CorralError(
            Code.NOT_FOUND,
            f"folder {folder} does not exist",
            hint=f"name a folder of this machine, or one under {mount} on the cluster",
        )
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        if here:
            return await datasets.shard_here(
                session.fleet,
                session.controller,
                owner,
                mount=mount,
                folder=Path(folder),
                name=chosen,
                size=size,
                labels=labels,
                emit=emit,
            )
        return await datasets.shard_there(
            session.fleet,
            session.controller,
            owner,
            mount=mount,
            folder=folder,
            name=chosen,
            size=size,
            labels=labels,
            emit=emit,
        )


def _checked_name(name: str) -> str:
    if not name or not name.replace("-", "a").replace("_", "a").replace(".", "a").isalnum():
        raise CorralError(
            Code.USAGE,
            f"{name!r} is not a name for a data set",
            hint="give it one of letters, digits, '-', '_' and '.': --name digits",
        )
    return name


async def bench_data(
    spec: ClusterSpec,
    folder: str,
    emit: Emit = ignore,
    *,
    seconds: float = 10.0,
    per_gpu: float = 0.0,
    user: str = "",
) -> Fed:
    """Read a data set on each node alone, then on all at once.

    It does not go through Slurm: jobs that run meanwhile are slowed down, and slow it down.

    Args:
        spec: the cluster.
        folder: of the data set on the cluster, or the name of one of the user's.
        emit: receives the node that reads.
        seconds: for each measurement.
        per_gpu: samples a second that each GPU (each node without GPUs) consumes; 0: unknown.
        user: whose it is; "" for the cluster's first user.

    Raises:
        CorralError: NOT_FOUND, no data set there; COMMAND_FAILED.
    """
    owner = _owner(spec, user)
    place = folder
    if not folder.startswith("/"):
        place = datasets.place_of(_mount(spec), owner, folder)
    groups = {name for partition in partitions_of(spec) for name in partition.groups}
    known = [node for node in nodes_of(spec) if node.group.name in groups]
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        nodes = [node for node in known if node.name in session.fleet.nodes]
        alone: list[Rate] = []
        for node in nodes:
            emit(Event(Kind.NOTE, "data", node.name, f"{node.name} reads alone"))
            alone += await datasets.rates(
                session.fleet, [node.name], owner, folder=place, seconds=seconds
            )
        emit(Event(Kind.NOTE, "data", message=f"{len(nodes)} nodes read at once"))
        together = await datasets.rates(
            session.fleet, [n.name for n in nodes], owner, folder=place, seconds=seconds
        )
    gpus = {node.name: node.group.gpu_count or 1 for node in nodes}
    needs = {name: per_gpu * count for name, count in gpus.items()} if per_gpu else {}
    return Fed(place, tuple(alone), together, needs)


def _owner(spec: ClusterSpec, user: str) -> str:
    names = [known.name for known in users_of(spec)]
    if user and user not in names:
        raise CorralError(Code.USAGE, f"no user called {user}", hint=f"users: {', '.join(names)}")
    return user or names[0]


def _mount(spec: ClusterSpec) -> str:
    if not spec.storage:
        raise CorralError(
            Code.USAGE,
            "the cluster has no shared storage",
            hint="declare a folder all nodes share under storage: in the cluster file, then apply",
        )
    return spec.storage[0].mount
