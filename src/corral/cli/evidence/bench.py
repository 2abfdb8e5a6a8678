"""``corral bench``: benchmarks of the fabric between GPUs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.cli.evidence.bench_nodes import (
    GPU_EPILOG,
    NETWORK_EPILOG,
    STORAGE_EPILOG,
    bench_gpu,
    bench_network,
    bench_storage,
)
from corral.cli.evidence.bench_run import (
    HISTORY_EPILOG,
    RUN_EPILOG,
    bench_history,
    bench_run,
    failure_view,
    transport_view,
    view,
)
from corral.cli.evidence.bench_scaling import SCALING_EPILOG, bench_scaling
from corral.cli.options import JSON, examples, verb_app
from corral.cli.terminal.files import pasted
from corral.cli.terminal.text import right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.prove.fabric.hardware import known_hardware
from corral.prove.fabric.limits import Algorithm, Topology
from corral.prove.fabric.model import Collective
from corral.prove.fabric.transport import NETWORKS
from corral.spec.providers import MACHINES

_LOG_SOURCE = "from nccl-tests: srun all_reduce_perf -b 1M -e 8G -f 2 | corral bench read -"
_HARDWARE = next(kind.hardware for kind in MACHINES.values() if kind.hardware)

app = verb_app()
LOG = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="File with the output of nccl-tests, or written with -J; - is standard input.",
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
    typer.Option(
        help="Collective that was measured, where the log does not state it.", show_default=False
    ),
]
ALGORITHM = Annotated[
    Algorithm | None,
    typer.Option(help="Algorithm, the value of NCCL_ALGO.", show_default=False),
]
FABRIC = Annotated[
    str,
    typer.Option(
        help=f"Network that NCCL should have used: {', '.join(NETWORKS)}.", show_default=False
    ),
]


@app.callback(
    epilog=examples(
        "corral bench run lab",
        "corral bench network lab",
        "corral bench read nccl.log --hardware dgx-h100",
        "corral bench hardware",
    )
)
def bench() -> None:
    """Measure how fast it is, or read measurements."""


app.command("run", epilog=RUN_EPILOG)(bench_run)
app.command("network", epilog=NETWORK_EPILOG)(bench_network)
app.command("storage", epilog=STORAGE_EPILOG)(bench_storage)
app.command("gpu", epilog=GPU_EPILOG)(bench_gpu)
app.command("scaling", epilog=SCALING_EPILOG)(bench_scaling)
app.command("history", epilog=HISTORY_EPILOG)(bench_history)


@app.command(
    "read",
    epilog=examples(
        f"corral bench read nccl.log --hardware {_HARDWARE}",
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
    1 GiB and more, never the average over all sizes. A run that failed is explained by the doctor's
    rules. Exit status 1 when a verdict is fail or the run failed.
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
    benchmark = api.read_benchmark(pasted(file, _LOG_SOURCE), known)
    ui.json(benchmark.as_dict())
    for measured, verdict in benchmark.tables:
        ui.show(*view(measured, verdict), Text())
    if benchmark.failure is not None:
        ui.show(*failure_view(benchmark.failure))
    if benchmark.transport.known:
        ui.show(transport_view(benchmark.transport))
    return Exit.GOOD if benchmark.good else Exit.NOT_GOOD


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
        for name, hardware in known_hardware().items()
        for seen in hardware.seen
    ]
    keys = ("name", "title", "over", "collectives", "busbw_gb_s", "source")
    entries = [dict(zip(keys, row, strict=True)) for row in rows]
    ui.json({"hardware": [entry | {"busbw_gb_s": float(entry["busbw_gb_s"])} for entry in entries]})
    ui.show(table(("name", "hardware", "over", "of", *right("GB/s"), "source"), rows))
    return Exit.GOOD
