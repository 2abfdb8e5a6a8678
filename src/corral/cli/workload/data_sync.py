"""``corral data sync``: a folder of one node copied to the others."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.options import CLUSTER, JSON, examples, verb_app
from corral.cli.terminal.text import duration, plural, right, size, table
from corral.cli.terminal.ui import Ui
from corral.cli.which import cluster
from corral.errors import Exit

app = verb_app()


@app.command(
    "sync",
    epilog=examples(
        "corral data sync /data/digits -c rented",
        "corral data sync /data/digits -c rented --from desk --to pod[0-3] --delete",
    ),
)
def sync(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="On the source; the same place on the others.")
    ],
    named: CLUSTER = "",
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="NODE", help="Left out: the controller.", show_default=False
        ),
    ] = "",
    nodes: Annotated[
        str,
        typer.Option("--to", metavar="NODES", help="Left out: all others.", show_default=False),
    ] = "",
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove there what the source has not.")
    ] = False,
    as_json: JSON = False,
) -> int:
    """Copy a folder of one node to others, over the control network.

    For nodes that share no storage, or over links too thin for it. rsync sends only what differs,
    over ssh, with a key that is made for this run and ends with it. After an interruption, the same
    command resumes.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, "", named)
    done = ui.run(
        lambda emit: api.sync_data(spec, folder, emit, source=source, nodes=nodes, delete=delete),
        state="files that were copied stay; run it again",
    )
    good = all(copy.error is None for copy in done)
    ui.json({"good": good, "nodes": [copy.as_dict() for copy in done]})
    rows = [
        (
            copy.node,
            plural(copy.files, "file"),
            size(copy.bytes),
            duration(copy.seconds),
            copy.error.message if copy.error else "",
        )
        for copy in done
    ]
    ui.show(table(("node", *right("sent", "size", "took"), "failed"), rows))
    for copy in done:
        if copy.error:
            ui.note(f"{copy.error}. hint: {copy.error.hint}", "bold red")
    return Exit.GOOD if good else Exit.FAILED
