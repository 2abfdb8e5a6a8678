"""``corral profile``: what a profiled job recorded."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.options import CLUSTER, JSON, examples, verb_app
from corral.cli.terminal.output import folder_of
from corral.cli.terminal.ui import Ui
from corral.cli.which import cluster
from corral.cli.workload.profileview import profile_view
from corral.errors import Exit
from corral.spec.models import ClusterSpec

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
        typer.Argument(
            metavar="JOB", help="Its number; 12_3: part 3 of array 12.", show_default=False
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where to keep the recordings; left out: profile-JOB here.",
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
    show_profile(ui, cluster(ui, named), job, output)
    return Exit.GOOD


def show_profile(ui: Ui, spec: ClusterSpec, job: str, output: str = "") -> None:
    """Fetch a job's recordings, keep them, and show their contents."""
    recordings = ui.quietly(lambda: api.job_profile(spec, job))
    folder = folder_of(output or f"profile-{job}")
    kept = api.keep_profile(recordings, folder)
    ui.json({**recordings.as_dict(), "kept": [str(path) for path in kept]})
    ui.show(*profile_view(recordings), f"kept in {folder}: {', '.join(path.name for path in kept)}")
