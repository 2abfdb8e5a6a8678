"""``corral elastic``: rent nodes for pending jobs, end them when they are idle."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, TARGET, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()
ONCE = Annotated[bool, typer.Option("--once", help="Stop when there is nothing to do.")]


@app.command(epilog=examples("corral elastic -c lab", "corral elastic lab.yaml --once"))
def elastic(
    target: TARGET = "", named: CLUSTER = "", once: ONCE = False, as_json: JSON = False
) -> int:
    """Rent nodes for pending jobs, end them when idle.

    Slurm marks nodes that a pending job needs; this rents them at the first available offer, checks
    them, sets them up, and ends those that Slurm powers down. It has no state: restarted, here or
    elsewhere with the same keys, it continues. While it does not run, no node comes, and idle nodes
    still cost money: run it as a service (see the guide, Elastic).
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, target, named)
    ui.run(
        lambda emit: api.drive(spec, emit, once=once),
        state="nodes that run keep running, and to cost money",
        lines_only=True,
    )
    ui.json({"cluster": spec.name, "done": True})
    return Exit.GOOD
