"""``corral resume``: let drained nodes take jobs again."""

from __future__ import annotations

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, NODES, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()


@app.command(epilog=examples("corral resume node2", "corral resume node[0-2] -c lab"))
def resume(nodes: NODES, named: CLUSTER = "", as_json: JSON = False) -> int:
    """Let drained nodes take jobs again.

    Also nodes that are down. A node that is in service stays as it is. Slurm refuses a node that
    does not answer: exit status 1.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named)
    states = ui.quietly(lambda: api.resume(spec, nodes))
    ui.json({"nodes": states})
    ui.show(*(f"{node}: {state.lower()}" for node, state in states.items()))
    return Exit.GOOD
