"""Use case: do several nodes pay for training, on this cluster, for this model?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from corral.api.evidence.node_bench import (
    OnSubmit,
    OnText,
    Where,
    job_of,
    keep,
    measure,
    usage,
)
from corral.api.workload.batch import groups_of
from corral.errors import CorralError
from corral.events import Emit, ignore
from corral.prove.measure.cost import METHODS
from corral.prove.measure.measurement import Measured
from corral.prove.measure.scaling import (
    Scaling,
    answer,
    curve,
    figures,
    read_scaling,
)
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import expand

CPU_MODEL = (1_000_000, 4, 64)
GPU_MODEL = (124_000_000, 8, 512)
WITHIN_S: Final = 150.0
"""With the job's start and the import of PyTorch an answer comes within three minutes."""


@dataclass(frozen=True, slots=True)
class Training:
    """What to train.

    Attributes:
        parameters: of the model; 0: 1 million without GPUs, 124 million (GPT-2) with them.
        batch: texts of each rank in a micro-batch; 0: 4 without GPUs, 8 with them.
        length: bytes of each text; 0: 64 without GPUs, 512 with them.
        batches: micro-batches of each way of training.
        counts: numbers of nodes; empty: 1, 2 and all.
        ways: of training; ``ddp`` is among them always.
        cpus: CPUs of each rank, 0: as Slurm gives.
        links: rates in Gb/s for which to predict the gain.
        seconds: for the complete measurement, from the start of its program on: methods, node
            counts and, where ``parameters`` is 0, the model's size are chosen by the measured
            speed. 0: no limit.
    """

    parameters: int = 0
    batch: int = 0
    length: int = 0
    batches: int = 32
    counts: tuple[int, ...] = ()
    ways: tuple[str, ...] = tuple(METHODS)
    cpus: int = 0
    links: tuple[float, ...] = ()
    seconds: float = WITHIN_S


async def bench_scaling(
    spec: ClusterSpec,
    training: Training | None = None,
    where: Where | None = None,
    emit: Emit = ignore,
    *,
    on_line: OnText = lambda _: None,
    on_submit: OnSubmit = lambda _: None,
) -> Measured:
    """Train on one node, on two and on all, plainly and with less traffic, and report what pays.

    Args:
        spec: the cluster.
        training: what to train; None: the defaults.
        where: which nodes; None: all of the default partition.
        emit: receives the job's states.
        on_line: called with each line that the program prints.
        on_submit: called once Slurm has the job.

    Raises:
        CorralError: USAGE, it cannot be measured so; COMMAND_FAILED, the job failed; PARSE_FAILED,
            it gave no result; and what ``run`` raises.
    """
    what, at = training or Training(), where or Where()
    unknown = sorted(set(what.ways) - set(METHODS))
    if unknown:
        raise usage(f"no way of training is called {', '.join(unknown)}", f"one of {list(METHODS)}")
    asked = job_of(spec, at, "scaling", _args(spec, what, at), **_fields(spec, what, at))
    if asked.nodes < 2:  # noqa: PLR2004
        raise usage("scaling needs two nodes: this is one")
    if any(not 0 < count <= asked.nodes for count in what.counts):
        raise usage(f"between 1 and {asked.nodes} nodes can be compared", "such as --nodes 1,2")
    ran = await measure(spec, asked, emit, on_line=on_line, on_submit=on_submit)
    seen = read_scaling(ran.lines)
    measurement = _judged(spec, what, seen, ran.measured)
    expected = {"parameters": seen.parameters, "tokens": seen.tokens}
    return keep(spec, measurement, expected)


def scaling_so_far(
    spec: ClusterSpec, training: Training, lines: Sequence[str], job: int
) -> Measured | None:
    """What an unfinished measurement answers by now; None before its first poll.

    It is not kept in the cluster's history.

    Args:
        spec: the cluster.
        training: what was to be trained.
        lines: printed so far.
        job: Slurm's number.
    """
    try:
        seen = read_scaling(lines, partial=True)
    except CorralError:
        return None
    return _judged(spec, training, seen, partial(Measured, job=job, partial=True))


def _judged(
    spec: ClusterSpec, what: Training, seen: Scaling, made: Callable[..., Measured]
) -> Measured:
    plot, data = curve(seen), spec.network.data
    now = (data.gbps or 0.0) if data else 0.0
    measurement = made("scaling", answer(seen, what.links, now), figures(seen))
    return replace(measurement, charts=(plot,) if plot else ())


def _gpus(spec: ClusterSpec, at: Where) -> int:
    return min(group.computing_gpus for group in groups_of(spec, at.partition))


def _args(spec: ClusterSpec, what: Training, at: Where) -> Sequence[str]:
    size, batch, length = GPU_MODEL if _gpus(spec, at) else CPU_MODEL
    return (
        f"--parameters={what.parameters or size}",
        *(() if what.parameters else ("--smaller",)),
        f"--seconds={what.seconds:g}",
        f"--batch={what.batch or batch}",
        f"--length={what.length or length}",
        f"--batches={what.batches}",
        f"--ways={','.join(dict.fromkeys(('ddp', *what.ways)))}",
        f"--nodes={','.join(map(str, what.counts))}",
    )


def _fields(spec: ClusterSpec, what: Training, at: Where) -> dict[str, Any]:
    gpus = _gpus(spec, at)
    most = sum(len(expand(group.nodes)) for group in groups_of(spec, at.partition))
    fields: dict[str, Any] = {"gpus_per_node": gpus, "nodes": at.nodes or most}
    return fields | ({"cpus_per_rank": what.cpus} if what.cpus else {})
