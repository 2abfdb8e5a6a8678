"""``corral forward``: a port of a job's node on this machine."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from corral import api
from corral.api.workload.batch import JobOutcome
from corral.cli.cluster_choice import cluster
from corral.cli.options import (
    BROWSER,
    CLUSTER,
    JOB_PART_HELP,
    JSON,
    NODE_OF_JOB,
    examples,
    verb_app,
)
from corral.cli.terminal.interrupts import ran
from corral.cli.terminal.ui import Ui
from corral.cli.workload.run import USER, job_ref
from corral.errors import Exit

LOCAL_PORT = Annotated[
    int,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        metavar="PORT",
        help="Port of this machine. Default: the same as there where it is free, else any.",
        show_default=False,
    ),
]

app = verb_app()


@app.command(
    epilog=examples(
        "corral forward 12 6006", "corral forward 12 8000 -n node1 -b", "corral forward 12_3 8000"
    )
)
def forward(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help=JOB_PART_HELP,
            callback=job_ref,
            show_default=False,
        ),
    ],
    port: Annotated[
        int,
        typer.Argument(
            metavar="PORT",
            min=1,
            max=65535,
            help="Port where a program of the job listens, on the node's loopback or "
            "another address.",
            show_default=False,
        ),
    ],
    *,
    node: NODE_OF_JOB = "",
    local_port: LOCAL_PORT = 0,
    browser: BROWSER = False,
    user: USER = "",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Reach a port of a running job's node.

    Prints its address on this machine and keeps an ssh tunnel open until the job ends or Ctrl-C.
    The tunnel is open to every user of this machine. The job may be of plain sbatch.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False, by_ssh="forward")

    async def holding() -> JobOutcome:
        opened = api.forward(spec, job, port, user=user, node=node, local_port=local_port)
        async with opened as (tunnel, ended):
            ui.json({"event": "forwarded", **tunnel.as_dict()})
            ui.show(
                f"{tunnel.url}  port {tunnel.port} of {tunnel.node}, job {tunnel.job}",
                "Ctrl-C closes the tunnel; the job keeps running.",
            )
            if browser:
                webbrowser.open(tunnel.url)
            return await ended()

    try:
        with ui.attended():
            outcome = ran(holding())
    except KeyboardInterrupt:
        ui.note(f"the tunnel is closed; job {job} keeps running")
        return Exit.GOOD
    ui.json({"event": "ended", **outcome.as_dict()})
    ui.note(f"job {job} ended: {outcome.state.lower()}; the tunnel is closed")
    return Exit.GOOD
