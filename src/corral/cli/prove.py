"""``corral prove``: does the cluster work? With evidence."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.options import CLUSTER, JSON, REHEARSE, TARGET, examples, verb_app
from corral.cli.proofview import proof_view
from corral.cli.ui import Ui
from corral.cli.which import cluster
from corral.errors import Exit

app = verb_app()


@app.command(
    epilog=examples(
        "corral prove",
        "corral prove lab.yaml --verbose",
        "corral prove -c lab --only isolation --only smoke.clocks",
    )
)
def prove(
    target: TARGET = "",
    *,
    wanted: CLUSTER = "",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="CHECK|GROUP",
            help="Run these checks alone; may be given several times.",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the evidence of every check.")
    ] = False,
    rehearse: REHEARSE = False,
    as_json: JSON = False,
) -> int:
    """Check with evidence that the cluster works.

    Runs real jobs for about half a minute and leaves nothing behind. Each check that fails says
    what was seen, the likely cause and what to do. Exit status 1 when a check failed.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, target, wanted, rehearse=rehearse)
    proof = ui.run(
        lambda emit: api.prove(spec, emit, only=tuple(only or ())),
        state="the cluster is as it was; nothing is proven",
    )
    ui.json(proof.as_dict())
    ui.show(*proof_view(proof, verbose=verbose))
    return Exit.GOOD if proof.good else Exit.NOT_GOOD
