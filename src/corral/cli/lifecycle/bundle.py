"""``corral bundle``: what a cluster without internet needs, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import declared
from corral.cli.options import CLUSTER, JSON, REHEARSE, TARGET, examples, verb_app
from corral.cli.terminal.text import size
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()


@app.command(
    epilog=examples(
        "corral bundle laptop.yaml -o kit.tar.zst",
        "corral bundle gpu.yaml -o kit.tar.zst --python 3.12",
    )
)
def bundle(
    target: TARGET = "",
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="KIT", dir_okay=False, help="The file to write."),
    ] = Path("kit.tar.zst"),
    python: Annotated[
        str,
        typer.Option(
            "--python",
            metavar="VERSION",
            help="Python version of the machine without internet, such as 3.12. "
            "Default: this machine's.",
            show_default=False,
        ),
    ] = "",
    rehearse: REHEARSE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Pack what a cluster without internet needs in a file.

    The file holds the node image (without PyTorch, with every package that the cluster file
    needs), Corral's wheel and those of its dependencies, and a manifest with the SHA-256 of each.
    Use it with `corral up FILE --bundle KIT --sha256 HEX`, with the same release of Corral.
    """
    ui = Ui(as_json=as_json)
    spec = declared(ui, target, named, rehearse=rehearse)
    made = ui.run(
        lambda emit: api.make_bundle(spec, output, emit, python=python), state="no bundle was made"
    )
    ui.json(made.as_dict())
    ui.show(
        f"{made.path}: {size(made.size)}, {made.image}",
        f"{made.wheels} wheels, for Python {made.python}",
        f"next, on the other machine: corral up FILE --bundle {output.name} --sha256 {made.sha256}",
    )
    return Exit.GOOD
