"""``corral bench scaling``: do several nodes pay for training?"""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.evidence.node_bench import Where
from corral.api.evidence.scaling import Training, scaling_so_far
from corral.cli.cluster_choice import cluster
from corral.cli.evidence.bench_nodes import LIMIT, PARTITION, show
from corral.cli.options import CLUSTER, HTML, JSON, TARGET, examples, parameter_count
from corral.cli.terminal.text import clean, right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError
from corral.prove.measure.cost import METHODS
from corral.prove.measure.measurement import Measured
from corral.prove.measure.scaling import progress

SCALING_EPILOG: Final = examples(
    "corral bench scaling",
    "corral bench scaling lab --parameters 124M --batch 8 --length 512",
    "corral bench scaling lab --nodes 1,2,4 --links 2.5,10,25",
)
PARAMETERS = Annotated[
    str,
    typer.Option(
        metavar="NUMBER",
        help="Parameters of the model, such as 124M or 1.5B. Default: 1M without GPUs, 124M with "
        "them.",
        show_default=False,
    ),
]
BATCH = Annotated[int, typer.Option(min=0, help="Texts of each rank in a micro-batch; 0: 4 or 8.")]
LENGTH = Annotated[int, typer.Option(min=0, help="Bytes of each text; 0: 64 or 512.")]
BATCHES = Annotated[int, typer.Option(min=16, help="Micro-batches of each way of training.")]
COUNTS = Annotated[
    str,
    typer.Option(
        "--nodes",
        "-N",
        metavar="LIST",
        help="Numbers of nodes to measure with, with commas: 1,2,4. Default: 1, 2 and all.",
        show_default=False,
    ),
]
WAYS_OPTION = Annotated[
    str,
    typer.Option(
        "--ways",
        help=f"Ways of training to compare: {', '.join(METHODS)}. Default: all.",
        show_default=False,
    ),
]
LINKS = Annotated[
    str, typer.Option(metavar="LIST", help="Also predict the gain from links of these Gb/s.")
]
WITHIN = Annotated[
    int,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="Time for the complete measurement: it decides what is measured, and without "
        "--parameters the model's size. 0: no limit.",
    ),
]
CPUS = Annotated[int, typer.Option("--cpus", min=0, help="CPUs of each rank; 0: Slurm's share.")]


def bench_scaling(  # noqa: PLR0917 - typer makes options of arguments
    target: TARGET = "",
    named: CLUSTER = "",
    parameters: PARAMETERS = "",
    batch: BATCH = 0,
    length: LENGTH = 0,
    batches: BATCHES = 32,
    nodes: COUNTS = "",
    ways: WAYS_OPTION = "",
    links: LINKS = "",
    within: WITHIN = 150,
    cpus: CPUS = 0,
    partition: PARTITION = "",
    time: LIMIT = "60m",
    html: HTML = None,
    as_json: JSON = False,
) -> int:
    """Train on one node, on two and on all, and report whether several pay.

    A GPT of the size you name is trained plainly (DDP), with accumulation, with bfloat16 and
    PowerSGD on the wire, with local SGD and DiLoCo; each is measured. A cost model is fitted to
    two nodes and compared with the rest; --links asks it for other networks. The first seconds
    measure a step and the link, and give an estimate. Ctrl-C prints what was measured until then.
    """
    ui = Ui(as_json=as_json)
    training = Training(
        parameters=parameter_count(parameters),
        batch=batch,
        length=length,
        batches=batches,
        counts=tuple(int(count) for count in _numbers(nodes, "--nodes")),
        ways=tuple(ways.split(",")) if ways else tuple(METHODS),
        cpus=cpus,
        links=_numbers(links, "--links"),
        seconds=within,
    )
    spec = cluster(ui, target, named)
    where = Where(max(training.counts, default=0), partition, time)
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        if text := progress(line):
            ui.note(text, "dim")

    return show(
        ui,
        lambda emit, submitted: api.bench_scaling(
            spec, training, where, emit, on_line=on_line, on_submit=submitted
        ),
        _view,
        (spec, html),
        lambda job: scaling_so_far(spec, training, lines, job),
    )


def _view(measurement: Measured) -> list[RenderableType]:
    times = {
        (speedup["way"], speedup["ranks"]): speedup["times"]
        for speedup in measurement.figures["speedups"]
    }
    ranks_per_node = measurement.figures["ranks_per_node"]
    rows = [
        (
            str(max(1, run["ranks"] // ranks_per_node)),
            clean(run["way"]),
            f"{run['seconds'] * 1e3:.4g}",
            f"{run['compute']['alone'] * 1e3:.4g}",
            f"{times[run['way'], run['ranks']]:.2f}",
            f"{run['loss']:.3f}",
        )
        for run in sorted(measurement.figures["trained"], key=lambda run: run["ranks"])
    ]
    if not rows:
        return []
    head = (*right("nodes"), "way", *right("ms", "ms alone", "times as fast", "loss"))
    return [table(head, rows), Text()]


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(",") if part)
    except ValueError as error:
        raise CorralError(
            Code.USAGE,
            f"{option} {text!r} is not a list of numbers",
            hint=f"such as {option} 1,2,4",
        ) from error
    if any(not 0 < number < 1e6 for number in numbers):  # noqa: PLR2004
        raise CorralError(Code.USAGE, f"{option} holds a number that cannot be", hint="above 0")
    return numbers
