"""``corral logs``: what a job printed."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.jobview import Lines, end_line
from corral.cli.options import CLUSTER, JSON, examples, verb_app
from corral.cli.ui import Ui
from corral.cli.which import cluster
from corral.errors import Exit

app = verb_app()


@app.command(epilog=examples("corral logs 12", "corral logs 12 --follow", "corral logs 12 | less"))
def logs(
    job: Annotated[int, typer.Argument(metavar="JOB", help="Its number.", show_default=False)],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")
    ] = False,
    wanted: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Show what a job printed; each line has its rank in front.

    With --follow the exit status is 1 when the job fails, as with `corral run`. --json prints one
    JSON value per line, the job's own state last.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, wanted)
    outcome = ui.run(
        lambda emit: api.logs(spec, job, emit, on_line=Lines(ui, several=True), follow=follow),
        state="the job goes on",
        lines_only=True,
    )
    ui.json({"event": "ended" if outcome.state.ended else "state", **outcome.as_dict()})
    if not as_json:
        for line in end_line(outcome):
            ui.err.print(line, soft_wrap=True)
    return Exit.NOT_GOOD if follow and not outcome.good else Exit.GOOD
