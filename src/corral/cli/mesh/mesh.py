"""``corral mesh``: the tailnet of a cluster; each sub-command has its own module."""

from __future__ import annotations

from corral.cli.mesh import mesh_policy, mesh_status
from corral.cli.options import examples, verb_app

app = verb_app()
app.add_typer(mesh_status.app)
app.add_typer(mesh_policy.app)


@app.callback(epilog=examples("corral mesh status rented.yaml", "corral mesh policy rented.yaml"))
def mesh() -> None:
    """Show a cluster's tailnet, its links and its policy."""
