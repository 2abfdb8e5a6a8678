"""``corral keys``: the keys of a cluster; each sub-command has its own module."""

from __future__ import annotations

from corral.cli.operations import keys_forget, keys_install, keys_rotate
from corral.cli.options import examples, verb_app

app = verb_app()
app.add_typer(keys_install.app)
app.add_typer(keys_forget.app)
app.add_typer(keys_rotate.app)


@app.callback(epilog=examples("corral keys install lab.yaml", "corral keys rotate lab.yaml"))
def keys() -> None:
    """Set up, forget and replace the keys of a cluster."""
