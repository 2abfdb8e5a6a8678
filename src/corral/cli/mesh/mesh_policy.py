"""``corral mesh policy``: what the tailnet's access policy must contain for a cluster."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from corral import api
from corral.cli.options import CLUSTER, JSON, TARGET, YES, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.which import declared
from corral.errors import Exit

app = verb_app()


@app.command(
    "policy",
    epilog=examples("corral mesh policy rented.yaml", "corral mesh policy rented.yaml --apply"),
)
def policy(
    target: TARGET = "",
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Add it to the policy of the control server.")
    ] = False,
    yes: YES = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Print the part of the access policy that the cluster needs, and on request add it.

    The policy is read first, what it lacks is added, nothing is taken out, and it is read again. A
    policy with comments is not changed: they would be lost.
    """
    ui = Ui(as_json=as_json)
    spec = declared(ui, target, named)
    part = ui.quietly(lambda: api.mesh_policy(spec))
    ui.show(part.text)
    if not apply:
        ui.json({"policy": json.loads(part.text), "applied": False})
        return Exit.GOOD
    if not ui.confirm("Add it to the policy of the entire tailnet?", yes=yes):
        ui.json({"policy": json.loads(part.text), "applied": False})
        return Exit.NOT_GOOD
    changed, outcome = ui.quietly(lambda: api.apply_mesh_policy(spec))
    ui.json({"policy": json.loads(part.text), "applied": changed, "said": outcome})
    ui.show(outcome)
    return Exit.GOOD
