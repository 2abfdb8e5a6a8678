"""``corral profile``: what a profiled job recorded, and where its time went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api import RankTrace, Recordings
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JOB_HELP, JSON, examples, verb_app
from corral.cli.terminal.files import folder_of
from corral.cli.terminal.text import right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.spec.models import ClusterSpec

ROWS: Final = 16
NAME: Final = 76
MEGA: Final = 1e6
_INCOMPLETE: Final = (
    "nsys could not read all that it recorded, so kernels are missing from the table: it is older "
    "than the node's CUDA (install a newer one, or use --profile torch)"
)


def profile_view(recordings: Recordings) -> Iterator[RenderableType]:
    """All that people see of it."""
    if recordings.traces:
        yield from _traces(recordings.traces)
    rows_by_rank = recordings.kernels or recordings.calls
    what = "GPU kernels" if recordings.kernels else "system calls over 0.1 ms"
    for rank, rows in list(rows_by_rank.items())[:1]:
        yield Text(f"{what} of rank {rank} (nsys stats)", "bold")
        cells = [
            (_shorter(r.name), f"{r.milliseconds:.1f}", str(r.calls), f"{r.percent:.1f}")
            for r in rows[:ROWS]
        ]
        first = "kernel" if recordings.kernels else "call"
        yield table((first, *right("ms", "calls", "%")), cells)
    if recordings.incomplete:
        yield Text(_INCOMPLETE, "yellow")
    for name, size in recordings.too_large.items():
        text = (
            f"{name} has {size / MEGA:.0f} MB and stays on the cluster: {recordings.folder}/{name}"
        )
        yield Text(text, "yellow")


def _traces(traces: tuple[RankTrace, ...]) -> Iterator[RenderableType]:
    rows = [_row(trace) for trace in traces[:ROWS]]
    head = right("rank", "steps", "ms/step", "compute", "communication", "overlap", "idle")
    yield table(head, rows)
    if len(traces) > ROWS:
        yield Text(f"and {len(traces) - ROWS} more ranks (--json has all)", "dim")
    slowest = max(traces, key=lambda trace: trace.wall)
    what = "GPU kernels" if slowest.gpu else "operators on the CPU"
    yield Text(f"what took longest on rank {slowest.rank}: {what}", "bold")
    cells = [
        (
            _shorter(k.name),
            f"{k.microseconds / 1000:.1f}",
            str(k.calls),
            f"{100 * k.microseconds / (slowest.wall or 1):.1f}",
        )
        for k in slowest.top
    ]
    yield table(("name", *right("ms", "calls", "%")), cells)


def _row(trace: RankTrace) -> tuple[str, ...]:
    about = trace.as_dict()
    parts = ("compute", "communication", "overlap", "idle")
    shares = [100 * about[f"{part}_ms"] / (about["wall_ms"] or 1) for part in parts]
    each = about["wall_ms"] / max(1, trace.steps)
    return (
        str(trace.rank),
        str(trace.steps),
        f"{each:.1f}",
        *(f"{share:.1f} %" for share in shares),
    )


def _shorter(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 3]}..."


app = verb_app()


@app.command(
    epilog=examples(
        "corral run train.py --nodes 2 --profile torch",
        "corral profile 12",
        "corral profile 12_3 --output lr-0.001",
    )
)
def profile(
    job: Annotated[
        str,
        typer.Argument(metavar="JOB", help=JOB_HELP, show_default=False),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder for the recordings. Default: profile-JOB of this folder.",
            show_default=False,
        ),
    ] = "",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Show where the time of a profiled job went, and keep its recordings here.

    For a job that ran with --profile torch: of each rank's recorded steps, how long it computed,
    communicated, did both at once and did neither, and which kernels took longest. ui.perfetto.dev
    opens timeline.json.gz, the traces of all ranks on one clock. With --profile nsys: the reports,
    and what `nsys stats` prints about their kernels.
    """
    ui = Ui(as_json=as_json)
    show_profile(ui, cluster(ui, named, administers=False, by_ssh="profile"), job, output)
    return Exit.GOOD


def show_profile(ui: Ui, spec: ClusterSpec, job: str, output: str = "") -> None:
    """Fetch a job's recordings, keep them, and show their contents."""
    recordings = ui.quietly(lambda: api.job_profile(spec, job))
    folder = folder_of(output or f"profile-{job}")
    kept = api.keep_profile(recordings, folder)
    ui.json({**recordings.as_dict(), "kept": [str(path) for path in kept]})
    ui.show(*profile_view(recordings), f"kept in {folder}: {', '.join(path.name for path in kept)}")
