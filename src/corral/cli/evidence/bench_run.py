"""``corral bench run`` and ``history``: collectives of a cluster, and how they look."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.evidence.bench import RunFailure
from corral.api.evidence.collective_bench import Benched, BenchRequest
from corral.api.workload.queue import JobHandle
from corral.cli.cluster_choice import cluster
from corral.cli.options import (
    CLUSTER,
    COUNT,
    HTML,
    IMAGE_HELP,
    JSON,
    LIMIT,
    PARTITION,
    TARGET,
    examples,
)
from corral.cli.terminal.text import binary, clean, one_line, right, table
from corral.cli.terminal.ui import InterruptedByUserError, Ui
from corral.errors import Code, CorralError, Exit
from corral.plurals import plural
from corral.prove.fabric.corral_benchmark import MEASURES, TYPES, Progress
from corral.prove.fabric.model import Table
from corral.prove.fabric.transport import Transport
from corral.prove.fabric.verdict import Outcome, Verdict
from corral.slurm.tres import scaled

STYLES: Final = {
    Outcome.PASS: "green",
    Outcome.WARN: "yellow",
    Outcome.FAIL: "bold red",
    Outcome.UNKNOWN: "dim",
}


def view(measured: Table, verdict: Verdict) -> list[RenderableType]:
    """One table with its verdict."""
    name = measured.collective.value if measured.collective else "a collective"
    who = f"{plural(measured.ranks, 'rank')}" if measured.ranks else "ranks not known"
    where = f" on {plural(measured.nodes, 'node')}" if measured.nodes else ""
    rows = [
        (
            binary(row.size),
            f"{min((t.time_us for t in row.timings), default=0):.1f}",
            f"{max((t.algbw for t in row.timings), default=0):.2f}",
            f"{row.best:.2f}",
        )
        for row in measured.rows
    ]
    head = Text.assemble(
        (f"{clean(measured.label)} " if measured.label else "", "dim"), (name, "bold")
    )
    outcome = Text.assemble(
        (verdict.outcome.value, STYLES[verdict.outcome]),
        f": {verdict.busbw:.4g} GB/s at {binary(verdict.size)}",
    )
    if verdict.reference is not None and verdict.reference.limit:
        outcome.append(f"; limit {verdict.reference.limit:.4g} GB/s", "dim")
    if verdict.reference is not None and verdict.reference.source:
        outcome.append(f"; reference: {one_line(verdict.reference.source)}", "dim")
    return [
        head.append(f", {who}{where}"),
        table(right("size", "us", "algbw GB/s", "busbw GB/s"), rows),
        outcome,
        *(Text(f"  {clean(reason)}") for reason in verdict.reasons),
    ]


def failure_view(failure: RunFailure) -> list[RenderableType]:
    """A run that gave no complete measurement."""
    head = Text.assemble(("fail", STYLES[Outcome.FAIL]), f": {clean(failure.cause)}")
    if failure.finding:
        head.append(f" ({failure.finding})", "dim")
    hint = [Text(f"  hint: {clean(failure.hint)}")] if failure.hint else []
    return [head, *hint, *(Text(f"  {clean(line)}", "dim") for line in failure.lines)]


def transport_view(transport: Transport) -> Text:
    """What NCCL used."""
    parts = [f"NCCL {transport.version}" if transport.version else "NCCL"]
    if transport.network:
        parts.append(
            f"network {transport.network} ({', '.join(transport.devices) or 'devices unknown'})"
        )
    parts += [f"{count} x {kind}" for kind, count in transport.channels]
    if transport.gpu_direct:
        parts.append(f"{transport.gpu_direct} with GPUDirect RDMA")
    return Text(f"used: {clean(', '.join(parts))}", "dim")


RUN_EPILOG: Final = examples(
    "corral bench run",
    "corral bench run lab --collectives all_reduce --largest 64M",
    "corral bench run dgx --hardware dgx-h100 --largest 8G --html bench.html",
    "corral bench run dgx --nccl-tests /opt/nccl-tests/build --collectives all_reduce",
    "corral bench run dgx --container-image /nfs/nccl.sqsh --nccl-tests /opt/nccl-tests/build",
    "corral bench history lab",
)
HISTORY_EPILOG: Final = examples("corral bench history", "corral bench history lab --json")

COLLECTIVES = Annotated[
    str,
    typer.Option(
        help=f"Collectives to measure, with commas between: {', '.join(MEASURES)}. Default: all.",
        show_default=False,
    ),
]
SMALLEST = Annotated[str, typer.Option(metavar="SIZE", help="First size, such as 1M.")]
LARGEST = Annotated[
    str,
    typer.Option(
        metavar="SIZE", help="Last size; no buffer takes more than a quarter of the free memory."
    ),
]
TYPE = Annotated[
    str, typer.Option("--type", metavar="TYPE", help=f"Data type: {', '.join(TYPES)}.")
]
HARDWARE = Annotated[
    str,
    typer.Option(
        help="Known hardware to compare with (corral bench hardware). Default: what network.data "
        "declares.",
        show_default=False,
    ),
]
REFERENCE = Annotated[
    float, typer.Option(min=0, help="Compare with this busbw in GB/s; 0: do not.")
]
NCCL_TESTS = Annotated[
    str,
    typer.Option(
        metavar="FOLDER",
        help="Run nccl-tests' programs out of this folder of the nodes, or of the container, "
        "instead of Corral's own benchmark; over several nodes by Slurm's PMIx or PMI2.",
        show_default=False,
    ),
]
CONTAINER = Annotated[
    str,
    typer.Option(
        "--container-image",
        metavar="IMAGE",
        help=IMAGE_HELP,
        show_default=False,
    ),
]


def bench_run(  # noqa: PLR0917 - typer makes options of arguments
    target: TARGET = "",
    named: CLUSTER = "",
    collectives: COLLECTIVES = "",
    nodes: COUNT = 0,
    smallest: SMALLEST = "1M",
    largest: LARGEST = "1G",
    type_: TYPE = "float32",
    hardware: HARDWARE = "",
    reference: REFERENCE = 0.0,
    partition: PARTITION = "",
    time_: LIMIT = "30m",
    nccl_tests: NCCL_TESTS = "",
    container: CONTAINER = "",
    html: HTML = None,
    as_json: JSON = False,
) -> int:
    """Measure a cluster's collectives through Slurm, and judge them.

    One rank per GPU, or per node (gloo) where there are none. Results are compared with what they
    must be. With three nodes and more each pair is measured as well, from four on halves of the
    nodes and halves of those: a slow node, link or half is named. The result is kept: corral bench
    history. Exit status 1 when a verdict is fail.
    """
    ui = Ui(as_json=as_json)
    if type_ not in TYPES:
        raise CorralError(Code.USAGE, f"no type is called {type_!r}", hint=f"{', '.join(TYPES)}")
    what = BenchRequest(
        collectives=tuple(collectives.split(",")) if collectives else MEASURES,
        nodes=nodes,
        smallest=bytes_of(smallest),
        largest=bytes_of(largest),
        type=type_,
        partition=partition,
        time=time_,
        nccl_tests=nccl_tests,
        container=container,
    )
    spec = cluster(ui, target, named)
    known = api.Known(hardware=hardware, busbw=reference)
    jobs: list[JobHandle] = []

    def on_row(row: Progress) -> None:
        _show_row(ui, row)

    try:
        measurement = ui.run(
            lambda emit: api.run_bench(
                spec, what, known, emit, on_row=on_row, on_submit=jobs.append
            ),
            lines_only=True,
        )
    except InterruptedByUserError as error:
        if not jobs:
            raise
        state = f"job {jobs[0].id} keeps running; `corral cancel {jobs[0].id}` ends it"
        raise InterruptedByUserError(state, again="corral jobs") from error
    _report(ui, spec.name, measurement, html)
    return Exit.GOOD if measurement.benchmark.good else Exit.NOT_GOOD


def _report(ui: Ui, name: str, measurement: Benched, html: Path | None) -> None:
    ui.json(measurement.as_dict())
    _show(ui, measurement)
    if html is not None:
        api.write_page(html, api.bench_page(name, measurement))
        ui.note(f"report: {html}")


def bench_history(target: TARGET = "", named: CLUSTER = "", as_json: JSON = False) -> int:
    """List a cluster's earlier measurements of all kinds, oldest first."""
    ui = Ui(as_json=as_json)
    records = api.all_measured(cluster(ui, target, named).name)
    ui.json({"history": list(records)})
    rows = [row for record in records for row in _rows(record)]
    if rows:
        ui.show(table(("date", "what", "nodes", "verdict", "seen"), rows))
    else:
        ui.note("nothing was measured yet: corral bench run, network, storage, gpu or scaling")
    return Exit.GOOD


def _rows(record: Mapping[str, Any]) -> list[tuple[str | Text, ...]]:
    """A line for each collective, or one for what was measured otherwise: the gravest remark."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(record["at"])))
    nodes = clean(str(record.get("nodes") or "-"))
    if record["kind"] != "bench":
        first = next(iter(record["remarks"]), {"text": "nothing"})
        outcome = Outcome(record["outcome"])
        text = clean(str(first["text"]))
        return [(when, str(record["kind"]), nodes, Text(outcome, STYLES[outcome]), text)]
    rows: list[tuple[str | Text, ...]] = []
    for entry in record["tables"]:
        seen = f"{float(entry['busbw_gb_s']):.4g} GB/s at {binary(int(entry['size_bytes']))}"
        if entry["reference_gb_s"]:
            seen += f" (reference {float(entry['reference_gb_s']):.4g})"
        outcome = Outcome(entry["outcome"])
        rows.append((when, str(entry["collective"]), nodes, Text(outcome, STYLES[outcome]), seen))
    return rows


def bytes_of(text: str) -> int:
    """Bytes of ``64M``, ``1G``, ``4096``.

    Raises:
        CorralError: USAGE.
    """
    size = None if set(text.upper()) & set(".TP") else scaled(text.upper())
    if not size:
        raise CorralError(
            Code.USAGE, f"{text!r} is not a size", hint="an integer with K, M or G: 64M"
        )
    return int(size)


def _show_row(ui: Ui, row: Progress) -> None:
    wrong = f", {row.wrong} WRONG" if row.wrong else ""
    ui.note(
        f"{clean(row.collective)} {binary(row.size)}: {row.time_us:.1f} us, "
        f"{row.busbw:.4g} GB/s{wrong}",
        "bold red" if row.wrong else "dim",
    )


def _show(ui: Ui, measurement: Benched) -> None:
    for measured, verdict in measurement.benchmark.tables:
        ui.show(*view(measured, verdict), Text())
    if measurement.benchmark.transport.known:
        ui.show(transport_view(measurement.benchmark.transport))
    # Where nothing is known to compare with, the nodes are still compared with each other.
    if any(v.outcome is not Outcome.PASS for _, v in measurement.benchmark.tables):
        for sentence in (*measurement.bisected.sentences, *measurement.slow.sentences):
            ui.show(Text(f"slow: {clean(sentence)}", "bold red"))
    for cause in measurement.causes:
        known = cause.failure
        ui.show(Text(f"likely: {known.id} {clean(known.title)}: {clean(known.fix)}", "yellow"))
