"""``corral logs``: what a job printed."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JOB_HELP, JSON, RAW, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.workload.follow import Screen, show_end
from corral.cli.workload.run import job_ref
from corral.errors import Exit

app = verb_app()


@app.command(
    epilog=examples(
        "corral logs 12",
        "corral logs 12 --follow",
        "corral logs 12_3",
        "corral logs 12 | less",
        "corral logs 12 --raw > job12.log",
    )
)
def logs(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help=JOB_HELP,
            show_default=False,
            parser=job_ref,
        ),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")
    ] = False,
    raw: RAW = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Show what a job printed; each line has its rank in front. An array shows its parts.

    With --follow the exit status is 1 when the job fails, as with `corral run`. --json prints one
    JSON value per line, the job's own state last. What a terminal would obey is shown as its
    escape code, on a terminal and in a pipe; colours are kept on a terminal only.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False)
    screen = Screen(ui, several=True, raw=raw)
    with contextlib.ExitStack() as stack:
        if follow:
            stack.enter_context(screen)
        outcome = ui.run(
            lambda emit: api.logs(
                spec,
                job,
                screen.emit(emit),
                on_line=screen.line,
                follow=follow,
                on_live=screen.live,
            ),
            state="the job keeps running",
            lines_only=True,
        )
    show_end(ui, outcome, screen)
    return Exit.NOT_GOOD if follow and not outcome.good else Exit.GOOD
