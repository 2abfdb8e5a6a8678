"""``corral drain``: let nodes take no new jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, NODES, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()


@app.command(epilog=examples("corral drain node2 --reason 'new memory'"))
def drain(
    nodes: NODES,
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            "-r",
            metavar="TEXT",
            help="Reason, for the next person.",
            show_default=False,
        ),
    ],
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Let nodes take no new jobs; running jobs finish."""
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named)
    states = ui.quietly(lambda: api.drain(spec, nodes, reason))
    ui.json({"nodes": states})
    ui.show(*(f"{node}: {state.lower()}" for node, state in states.items()))
    ui.show(f"next, when it is over: corral resume {nodes}")
    return Exit.GOOD
