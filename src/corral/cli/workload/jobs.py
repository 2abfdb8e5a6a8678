"""``corral jobs``: the list of jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.workload.jobview import job_dict, jobs_view
from corral.errors import Exit

app = verb_app()


@app.command(epilog=examples("corral jobs", "corral jobs --all --json | jq .jobs[].state"))
def jobs(
    ended: Annotated[
        bool, typer.Option("--all", "-a", help="Also those of the last week that have ended.")
    ] = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """List jobs, newest first: pending and running ones, with --all also ended ones."""
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False)
    listed = ui.quietly(lambda: api.jobs(spec, ended=ended))
    ui.json({"jobs": [job_dict(job) for job in listed]})
    if listed:
        ui.show(jobs_view(listed))
    else:
        ui.show(
            "no jobs"
            if ended
            else "no jobs are pending or running; --all shows those that have ended"
        )
    return Exit.GOOD
