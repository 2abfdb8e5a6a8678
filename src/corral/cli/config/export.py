"""``corral export``: a cluster file for other people's tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.options import CLUSTER, JSON, TARGET, examples, verb_app
from corral.cli.terminal.output import folder_of
from corral.cli.terminal.ui import Ui
from corral.cli.which import declared
from corral.errors import Code, CorralError, Exit

OUTPUT = Annotated[
    str, typer.Option("--output", "-o", metavar="DIR", help="Folder to write; made when missing.")
]
LISTING = Annotated[
    str, typer.Option("--from", metavar="LISTING", help="What ibnetdiscover printed, as a file.")
]
PLUGIN = Annotated[str, typer.Option("--plugin", metavar="tree|block", help="tree or block.")]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]

app = verb_app()


@app.callback(
    epilog=examples(
        "corral export gcluster mega.yaml -o deployment",
        "corral export ansible dgx.yaml -o config",
        "corral export topology dgx.yaml --from fabric.txt",
    )
)
def export() -> None:
    """Write a cluster for other people's tools."""


@app.command(
    epilog=examples(
        "corral export gcluster mega.yaml -o deployment",
        "corral export gcluster mega.yaml -o deployment --overwrite --json",
    )
)
def gcluster(
    target: TARGET = "",
    *,
    output: OUTPUT,
    overwrite: OVERWRITE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Write blueprints and deployment files of Google's Cluster Toolkit.

    For a cluster of A3 Mega machines (provider gcp). One blueprint with toolkit v1.95.0; base,
    image and cluster apart with v1.39.0. Every module and setting is checked against that release.
    """
    ui = Ui(as_json=as_json)
    spec = declared(ui, target, named)
    done = api.export_gcluster(spec, folder_of(output), overwrite=overwrite)
    ui.json(done.as_dict())
    ui.show(*(f"{done.folder}/{name}" for name in done.files))
    for line in done.left:
        ui.note(f"not carried over: {line}", "yellow")
    ui.show(f"next, in {done.folder}:", *(f"  {line}" for line in done.next))
    return Exit.GOOD


@app.command(
    epilog=examples(
        "corral export ansible dgx.yaml -o config",
        "corral export ansible dgx.yaml -o config --json",
    )
)
def ansible(
    target: TARGET = "",
    *,
    output: OUTPUT,
    overwrite: OVERWRITE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Write inventory and variables for NVIDIA's DeepOps.

    For machines that are there (provider ssh). What DeepOps has no variable for is printed, and
    written into group_vars as comments.
    """
    ui = Ui(as_json=as_json)
    spec = declared(ui, target, named)
    done = api.export_ansible(spec, folder_of(output), overwrite=overwrite)
    ui.json(done.as_dict())
    ui.show(*(f"{done.folder}/{name}" for name in done.files))
    for line in done.left:
        ui.note(f"not carried over: {line}", "yellow")
    ui.show("next, in DeepOps' own folder:", *(f"  {line}" for line in done.next))
    return Exit.GOOD


@app.command(
    "topology",
    epilog=examples(
        "ibnetdiscover > fabric.txt   # as root, on a node",
        "corral export topology dgx.yaml --from fabric.txt",
        "corral export topology dgx.yaml --from fabric.txt --plugin block --json",
    ),
)
def topology_(
    target: TARGET = "",
    *,
    listing: LISTING,
    plugin: PLUGIN = "tree",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Print the switches of an InfiniBand fabric for the cluster file.

    Nodes that share all their leaf switches are one leaf, so rail-optimised fabrics are read too.
    Exit status 1 when links of the nodes look odd: missing ones, or slower than the others.
    """
    ui = Ui(as_json=as_json)
    if plugin not in ("tree", "block"):
        raise CorralError(Code.USAGE, f"--plugin {plugin}", hint="write tree or block")
    spec = declared(ui, target, named)
    try:
        text = Path(listing).read_text("utf-8", "replace")
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, f"{listing} cannot be read: {error.strerror}", hint="check the name"
        ) from error
    fabric = api.fabric_of(spec, text, plugin=plugin)
    ui.json({"text": fabric.text, "odd": list(fabric.odd)})
    ui.show(fabric.text.rstrip("\n"))
    for line in fabric.odd:
        ui.note(f"look at this: {line}", "yellow")
    return Exit.NOT_GOOD if fabric.odd else Exit.GOOD
