"""``corral resume``: let drained nodes take jobs again."""

from __future__ import annotations

from corral import api
from corral.cli.options import CLUSTER, JSON, NODES, examples, verb_app
from corral.cli.ui import Ui
from corral.cli.which import cluster
from corral.errors import Exit

app = verb_app()


@app.command(epilog=examples("corral resume node2", "corral resume node[0-2] -c lab"))
def resume(nodes: NODES, wanted: CLUSTER = "", as_json: JSON = False) -> int:
    """Let drained nodes take jobs again.

    Slurm refuses it (exit status 1) for a node that is neither drained nor down.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, wanted)
    states = ui.quietly(lambda: api.resume(spec, nodes))
    ui.json({"nodes": states})
    ui.show(*(f"{node}: {state.lower()}" for node, state in states.items()))
    return Exit.GOOD
