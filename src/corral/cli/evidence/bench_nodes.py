"""``corral bench network``, ``storage``, ``gpu``: what nodes do, measured through Slurm."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.evidence.node_bench import Where, as_proof, causes_of
from corral.api.workload.queue import JobHandle
from corral.cli.cluster_choice import cluster
from corral.cli.evidence.bench_run import STYLES, bytes_of
from corral.cli.options import CLUSTER, COUNT, HTML, JSON, LIMIT, PARTITION, TARGET, examples
from corral.cli.terminal.text import clean, right, table
from corral.cli.terminal.ui import InterruptedByUserError, Ui
from corral.errors import CorralError, Exit
from corral.events import Emit
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.measurement import Measured, Remark
from corral.spec.models import ClusterSpec

NETWORK_EPILOG: Final = examples(
    "corral bench network",
    "corral bench network lab --seconds 5 --streams 8",
    "corral bench network lab --json",
)
GPU_EPILOG: Final = examples("corral bench gpu", "corral bench gpu dgx --seconds 3 --json")
STORAGE_EPILOG: Final = examples(
    "corral bench storage", "corral bench storage lab --mount /data --size 4G"
)
MOUNT = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder to measure; repeatable. Default: all declared ones.",
        show_default=False,
    ),
]
SIZE = Annotated[
    str,
    typer.Option(
        metavar="SIZE", help="Size of each node's file; a quarter of what is free at most."
    ),
]
FILES = Annotated[int, typer.Option(min=10, max=1_000_000, help="Small files of each node.")]
SECONDS = Annotated[
    float, typer.Option(min=0.2, max=60, help="Seconds for each direction of each pair.")
]
EACH = Annotated[float, typer.Option(min=0.1, max=60, help="Seconds for each thing measured.")]
STREAMS = Annotated[int, typer.Option(min=1, max=64, help="TCP connections at a time.")]


def bench_network(  # noqa: PLR0917 - typer makes options of arguments
    target: TARGET = "",
    named: CLUSTER = "",
    nodes: COUNT = 0,
    partition: PARTITION = "",
    seconds: SECONDS = 1.0,
    streams: STREAMS = 4,
    time: LIMIT = "30m",
    html: HTML = None,
    as_json: JSON = False,
) -> int:
    """Measure the network between each two nodes, and name what is wrong.

    Throughput in both directions, round trips, the largest packet that passes unfragmented, and
    whether the data interface carries it. Disjoint pairs run at the same time; what is slow then is
    measured again alone. Compared with network.data of the cluster file. Exit status 1 when it
    fails.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, target, named)
    where = Where(nodes, partition, time)
    return show(
        ui,
        lambda emit, submitted: api.bench_network(
            spec, where, emit, seconds=seconds, streams=streams, on_submit=submitted
        ),
        _network,
        (spec, html),
    )


def bench_storage(  # noqa: PLR0917 - typer makes options of arguments
    target: TARGET = "",
    named: CLUSTER = "",
    mount: MOUNT = None,
    size: SIZE = "256M",
    files: FILES = 500,
    nodes: COUNT = 0,
    partition: PARTITION = "",
    time: LIMIT = "30m",
    html: HTML = None,
    as_json: JSON = False,
) -> int:
    """Measure shared folders from each node, and from all at once.

    Writing counts when fsync has come back; each file is read on a node that did not write it and
    compared; small files are created, stat-ed and removed. A node that is slower than the others is
    named. Exit status 1 when something is wrong.
    """
    ui = Ui(as_json=as_json)
    bytes_ = bytes_of(size)
    spec = cluster(ui, target, named)
    where = Where(nodes, partition, time)
    return show(
        ui,
        lambda emit, submitted: api.bench_storage(
            spec,
            where,
            emit,
            mounts=tuple(mount or ()),
            size=bytes_,
            files=files,
            on_submit=submitted,
        ),
        _storage,
        (spec, html),
    )


def _storage(measurement: Measured) -> list[RenderableType]:
    rows = [
        (
            clean(str(share["mount"])),
            clean(str(share["node"])) + (" with all" if share["together"] > 1 else ""),
            *(f"{share['rates'][rate]:.4g}" for rate in ("write", "read")),
            clean(str(share["reader"])),
            *(f"{share['rates'][rate]:.4g}" for rate in ("create", "stat", "remove")),
        )
        for share in measurement.figures["shares"]
    ]
    head = (
        *("folder", "node"),
        *right("write MB/s", "read MB/s"),
        "by",
        *right("create/s", "stat/s", "remove/s"),
    )
    return [table(head, rows), Text()]


def bench_gpu(  # noqa: PLR0917 - typer makes options of arguments
    target: TARGET = "",
    named: CLUSTER = "",
    nodes: COUNT = 0,
    partition: PARTITION = "",
    seconds: EACH = 1.0,
    time: LIMIT = "30m",
    html: HTML = None,
    as_json: JSON = False,
) -> int:
    """Measure each GPU, and name what is wrong with it.

    Products of matrices in bfloat16, float16, tf32 and float32, memory, copies from and to the host
    and between GPUs, clocks and their limits under load, ECC, replaced rows, Xid errors. Compared
    with the model's data sheet, and with the other GPUs of the same model. Exit status 1 when one
    fails.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, target, named)
    where = Where(nodes, partition, time)
    return show(
        ui,
        lambda emit, submitted: api.bench_gpu(
            spec, where, emit, seconds=seconds, on_submit=submitted
        ),
        lambda _: [],
        (spec, html),
    )


Work = Callable[[Emit, Callable[[JobHandle], None]], Coroutine[Any, Any, Measured]]


def show(
    ui: Ui,
    work: Work,
    view: Callable[[Measured], list[RenderableType]],
    page: tuple[ClusterSpec, Path | None],
    so_far: Callable[[int], Measured | None] = lambda _: None,
) -> int:
    """Run a measurement, show its figures and remarks; write its page if asked.

    Args:
        ui: the streams.
        work: the use case.
        view: its figures.
        page: the cluster, and where its page goes.
        so_far: given the job, what is known when Ctrl-C or a failure ends it early.
    """
    jobs: list[JobHandle] = []

    def early() -> Measured | None:
        partial = so_far(jobs[-1].id) if jobs else None
        if partial is not None:
            _show(ui, partial, view, page)
        return partial

    try:
        measurement = ui.run(lambda emit: work(emit, jobs.append), lines_only=True)
    except InterruptedByUserError as error:
        if not jobs:
            raise
        known = early()
        raise InterruptedByUserError(
            f"job {jobs[-1].id} keeps running; `corral cancel {jobs[-1].id}` ends it",
            again="corral jobs",
            result=known.as_dict() if known else None,
        ) from error
    except CorralError:
        early()
        raise
    ui.json(measurement.as_dict())
    _show(ui, measurement, view, page)
    return Exit.GOOD if measurement.good else Exit.NOT_GOOD


def _show(
    ui: Ui,
    measurement: Measured,
    view: Callable[[Measured], list[RenderableType]],
    page: tuple[ClusterSpec, Path | None],
) -> None:
    ui.show(*view(measurement), *remarks(measurement))
    for cause in causes_of(measurement):
        ui.show(Text(f"likely: {cause.id} {clean(cause.title)}: {clean(cause.fix)}", "dim"))
    spec, html = page
    if html is not None:
        api.write_page(html, api.proof_page(as_proof(spec, measurement)))
        ui.note(f"report: {html}")


def remarks(measurement: Measured) -> list[Text]:
    """The remarks, one line each, with the number in the failure catalogue."""
    return [
        Text.assemble(
            # What is not judged is listed as it is.
            *([(remark.outcome.value, STYLES[remark.outcome]), ": "] if _judged(remark) else ()),
            clean(remark.text),
            (f" ({remark.failure})" if remark.failure else "", "dim"),
        )
        for remark in measurement.remarks
    ]


def _judged(remark: Remark) -> bool:
    return remark.outcome is not Outcome.UNKNOWN


def _network(measurement: Measured) -> list[RenderableType]:
    flows = measurement.figures["flows"]
    rows = [
        (
            clean(str(flow["source"])),
            clean(str(flow["target"])),
            f"{flow['gbps']:.3g}" + (" alone" if flow["alone"] else ""),
            f"{flow['rtt_us']:.0f}",
            str(flow["path_mtu"]),
            str(flow["retransmits"]),
        )
        for flow in flows
    ]
    head = ("from", "to", *right("Gb/s", "rtt us", "MTU", "resent"))
    return [table(head, rows), Text()] if rows else []
