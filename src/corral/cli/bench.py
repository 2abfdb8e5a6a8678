"""``corral bench``: benchmarks of the fabric between GPUs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.cli.options import JSON, examples, verb_app
from corral.cli.text import binary, clean, one_line, plural, table
from corral.cli.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.prove.fabric.hardware import HARDWARE
from corral.prove.fabric.limits import Algorithm, Topology
from corral.prove.fabric.model import Collective, Table
from corral.prove.fabric.transport import NETWORKS, Transport
from corral.prove.fabric.verdict import Outcome, Verdict

app = verb_app()
STYLES: Final = {
    Outcome.PASS: "green",
    Outcome.WARN: "yellow",
    Outcome.FAIL: "bold red",
    Outcome.UNKNOWN: "dim",
}
LOG = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="What nccl-tests printed, or wrote with -J; - is standard input.",
        show_default=False,
    ),
]
HARDWARE_NAME = Annotated[
    str, typer.Option(help="Known hardware, see: corral bench hardware.", show_default=False)
]
NODES = Annotated[int, typer.Option(min=0, help="Nodes that took part; 0: as the log lists them.")]
NICS = Annotated[int, typer.Option(min=0, help="Interfaces per node for GPU traffic.")]
GBPS = Annotated[float, typer.Option(min=0, help="Rate of each, Gb/s.")]
GPUS = Annotated[int, typer.Option(min=1, help="GPUs per node.")]
INTRA = Annotated[float, typer.Option(min=0, help="GB/s between the GPUs of a node; 0: not known.")]
REFERENCE = Annotated[
    float,
    typer.Option(min=0, help="GB/s busbw of a healthy one; 0: the known hardware's."),
]
COLLECTIVE = Annotated[
    Collective | None,
    typer.Option(help="What was measured, where the log does not say.", show_default=False),
]
ALGORITHM = Annotated[
    Algorithm | None,
    typer.Option(help="What NCCL_ALGO was set to.", show_default=False),
]
FABRIC = Annotated[
    str,
    typer.Option(help=f"What NCCL should have used: {', '.join(NETWORKS)}.", show_default=False),
]
LARGEST: Final = 1 << 30
"""Bytes of a log that is read: the largest seen had some megabytes."""


@app.callback(
    epilog=examples("corral bench read nccl.log --hardware dgx-h100", "corral bench hardware")
)
def bench() -> None:
    """Read benchmarks of the fabric, and judge them."""


@app.command(
    "read",
    epilog=examples(
        "corral bench read nccl.log --hardware a3-mega",
        "corral bench read result.json --nics 8 --gbps 400 --gpus 8 --reference 370 --nodes 4",
        "srun all_reduce_perf -b 1M -e 8G -f 2 | corral bench read -",
    ),
)
def read(  # noqa: PLR0917 - typer makes options of arguments
    file: LOG,
    hardware: HARDWARE_NAME = "",
    nodes: NODES = 0,
    nics: NICS = 0,
    gbps: GBPS = 0.0,
    gpus: GPUS = 1,
    intra: INTRA = 0.0,
    reference: REFERENCE = 0.0,
    collective: COLLECTIVE = None,
    algorithm: ALGORITHM = None,
    fabric: FABRIC = "",
    as_json: JSON = False,
) -> int:
    """Read a log of nccl-tests and judge it.

    Reads every layout since nccl-tests 2.0 and its JSON, out of any log. A table that is cut, or
    whose numbers contradict each other, is an error and not a result. Judged is the plateau at
    1 GiB and more, never the average over all sizes. Exit status 1 when a verdict is fail.
    """
    ui = Ui(as_json=as_json)
    if fabric and fabric not in NETWORKS:
        raise CorralError(
            Code.USAGE, f"no fabric is called {fabric!r}", hint=f"one of {', '.join(NETWORKS)}"
        )
    if bool(nics) != bool(gbps):
        raise CorralError(
            Code.USAGE, "--nics and --gbps belong together", hint="such as --nics 8 --gbps 400"
        )
    topology = Topology(nics, gbps, intra, gpus) if nics else None
    known = api.Known(hardware, topology, reference, nodes, collective, algorithm, fabric)
    found = api.read_benchmark(_text(file), known)
    ui.json(found.as_dict())
    for one, verdict in found.tables:
        ui.show(*_view(one, verdict), Text())
    if found.transport.known:
        ui.show(_transport(found.transport))
    return Exit.GOOD if found.good else Exit.NOT_GOOD


@app.command("hardware", epilog=examples("corral bench hardware"))
def hardware_(as_json: JSON = False) -> int:
    """List the hardware that is known, with its healthy figures and their sources."""
    ui = Ui(as_json=as_json)
    rows = [
        (
            name,
            hardware.title,
            "several nodes" if seen.several else "one node",
            "all" if len(seen.collectives) == len(Collective) else ", ".join(seen.collectives),
            f"{seen.busbw:g}",
            seen.source,
        )
        for name, hardware in HARDWARE.items()
        for seen in hardware.seen
    ]
    keys = ("name", "title", "over", "collectives", "busbw_gb_s", "source")
    ui.json({"hardware": [dict(zip(keys, row, strict=True)) for row in rows]})
    ui.show(table(("name", "hardware", "over", "of", "GB/s", "source"), rows, right="GB/s"))
    return Exit.GOOD


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(LARGEST)
        with Path(file).open(encoding="utf-8", errors="replace") as stream:
            return stream.read(LARGEST)
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, f"{file} cannot be read: {error.strerror}", hint="check the path"
        ) from error


def _view(one: Table, verdict: Verdict) -> list[RenderableType]:
    name = one.collective.value if one.collective else "a collective"
    who = f"{plural(one.ranks, 'rank')}" if one.ranks else "ranks not known"
    where = f" on {plural(one.nodes, 'node')}" if one.nodes else ""
    rows = [
        (
            binary(row.size),
            f"{min((t.time_us for t in row.timings), default=0):.1f}",
            f"{max((t.algbw for t in row.timings), default=0):.2f}",
            f"{row.best:.2f}",
        )
        for row in one.rows
    ]
    head = Text.assemble((f"{clean(one.label)} " if one.label else "", "dim"), (name, "bold"))
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
        table(("size", "us", "algbw", "busbw"), rows, right="size us algbw busbw"),
        outcome,
        *(Text(f"  {clean(reason)}") for reason in verdict.reasons),
    ]


def _transport(found: Transport) -> Text:
    parts = [f"NCCL {found.version}" if found.version else "NCCL"]
    if found.network:
        parts.append(f"network {found.network} ({', '.join(found.devices) or 'devices not said'})")
    parts += [f"{count} x {kind}" for kind, count in found.channels]
    if found.gpu_direct:
        parts.append(f"{found.gpu_direct} with GPUDirect RDMA")
    return Text(f"used: {clean(', '.join(parts))}", "dim")
