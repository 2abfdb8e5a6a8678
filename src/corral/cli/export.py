"""``corral export``: a cluster file for other people's tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.options import FILE, JSON, examples, verb_app
from corral.cli.ui import Ui
from corral.cli.which import from_file
from corral.errors import Exit

OUTPUT = Annotated[
    str, typer.Option("--output", "-o", metavar="DIR", help="Folder to write; made when missing.")
]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]

app = verb_app()


@app.callback(epilog=examples("corral export gcluster mega.yaml -o deployment"))
def export() -> None:
    """Write a cluster for other people's tools."""


@app.command(
    epilog=examples(
        "corral export gcluster mega.yaml -o deployment",
        "corral export gcluster mega.yaml -o deployment --overwrite --json",
    )
)
def gcluster(
    file: FILE, output: OUTPUT, overwrite: OVERWRITE = False, as_json: JSON = False
) -> int:
    """Write blueprints and deployment files of Google's Cluster Toolkit.

    For a cluster of A3 Mega machines (provider gcp). One blueprint with toolkit v1.95.0; base,
    image and cluster apart with v1.39.0. Every module and setting is checked against that release.
    """
    ui = Ui(as_json=as_json)
    spec = from_file(ui, file)
    done = api.export_gcluster(spec, Path(output), overwrite=overwrite)
    ui.json(done.as_dict())
    ui.show(*(f"{done.folder}/{name}" for name in done.files))
    ui.show(f"next, in {done.folder}:", *(f"  {line}" for line in done.next))
    return Exit.GOOD
