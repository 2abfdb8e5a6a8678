"""``corral attach``: a shell inside a running job."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JOB_PART_HELP, JSON, NODE_OF_JOB, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.workload.run import USER, job_ref, open_terminal

app = verb_app()


@app.command(epilog=examples("corral attach 12", "corral attach 12_3", "corral attach 12 -n node1"))
def attach(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help=JOB_PART_HELP,
            callback=job_ref,
            show_default=False,
        ),
    ],
    node: NODE_OF_JOB = "",
    user: USER = "",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Open a shell inside a running job of yours.

    It sees the job's GPUs, memory and processes on that node, takes nothing from its ranks, and
    ends with the job. It runs on the node, also where the ranks are in a container. Becomes ssh.
    --json prints the command line and runs nothing.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False, by_ssh="attach")
    return open_terminal(
        ui,
        lambda: api.attach_argv(spec, job, user=user, node=node),
        f"inside job {job}; exit leaves it running",
    )
