"""``corral keys rotate``: the keys of a live cluster are replaced, and no job is lost."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.mesh.mesh_keys import rotate_mesh
from corral.cli.options import CLUSTER, JSON, REHEARSE, TARGET, YES, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.which import declared
from corral.errors import Code, CorralError, Exit

app = verb_app()


@app.command(
    "rotate",
    epilog=examples("corral keys rotate lab.yaml", "corral keys rotate lab.yaml --which all --yes"),
)
def rotate(
    target: TARGET = "",
    *,
    which: Annotated[
        str,
        typer.Option(
            "--which",
            metavar="KEY",
            help="auth: the key that nodes know each other by (slurm.jwks or munge.key); munge: "
            "the same, only where it is munge's; jwt: the key of tokens; mesh: the nodes' keys in "
            "the tailnet; all: all but mesh.",
        ),
    ] = "auth",
    yes: YES = False,
    rehearse: REHEARSE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Replace keys on all machines of a running cluster; jobs run on.

    With auth/slurm the old and the new key are good at the same time until all daemons have the new
    one. munge knows one key only: it is away for a moment on all nodes at once. With a new JWT key
    all tokens made before end. After an interruption, the same command resumes.
    """
    ui = Ui(as_json=as_json)
    if which == "mesh":
        return rotate_mesh(ui, declared(ui, target, named, rehearse=rehearse), yes=yes)
    try:
        keys = api.Which(which)
    except ValueError as error:
        raise CorralError(
            Code.USAGE, f"--which {which}: no such key", hint="auth, munge, jwt, mesh or all"
        ) from error
    spec = declared(ui, target, named, rehearse=rehearse)
    if not yes:
        ui.show(*(f"* {line}" for line in api.rotation_of(spec, keys)))
    if not ui.confirm("Do it?", yes=yes):
        ui.json({"rotated": []})
        return Exit.NOT_GOOD
    done = ui.run(
        lambda emit: api.rotate_keys(spec, emit, which=keys),
        state="keys may differ between machines: run the same command again, it goes on",
    )
    ui.json({"rotated": [key.as_dict() for key in done]})
    ui.show(*(f"{key.path}: new on {len(key.nodes)} machines; {key.means}" for key in done))
    return Exit.GOOD
