"""``corral reap``: end unused rented machines, and prove that nothing is left."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.cli.options import JSON, YES, examples, verb_app
from corral.cli.terminal.text import clean
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()
NAMES = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CLUSTER]...",
        help="Clusters by name. Default: those that the accounts show and this machine does not "
        "know.",
        show_default=False,
    ),
]
DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="Show what would be ended; end nothing.")]


@app.command(epilog=examples("corral reap --dry-run", "corral reap lab --yes"))
def reap(
    names: NAMES = None, yes: YES = False, dry_run: DRY_RUN = False, as_json: JSON = False
) -> int:
    """End rented machines, and prove that nothing is left.

    Searches every cloud of which there is a key for instances that carry a cluster's label or are
    in the ledger of this machine, ends them, and lists again until nothing is left. Machines that
    were not made by Corral are never touched. Exit status 1 when something was found and not ended,
    or a cloud did not take its key or answer.
    """
    ui = Ui(as_json=as_json)
    seen = ui.quietly(lambda: api.survey(names or ()))
    for name, error in seen.silent.items():
        style = "yellow" if name in seen.unsure else "dim"
        where = f" ({error.command})" if error.command else ""
        ui.note(f"{name} could not be asked: {error.message}{where}", style)
    chosen = [
        c
        for c in seen.clusters
        if (names or not c.known) and (c.assets.instances or c.assets.extras)
    ]
    passed = [c for c in seen.clusters if not names and c.known and c.assets.instances]
    for reapable in passed:
        rate = f"{reapable.rate()} $/h"
        text = (
            f"{reapable.cluster} is known here and left alone: {rate}; end it: corral down, or reap"
        )
        ui.note(f"{text} {reapable.cluster}", "dim")
    for reapable in chosen:
        ui.show(Text(f"{clean(reapable.cluster)}: {reapable.rate()} $/h", "bold"))
        for line in reapable.assets.lines():
            ui.show(Text(f"  {clean(line)}"))
    result = [reapable.as_dict() for reapable in chosen]
    if dry_run or not chosen:
        ui.json({"clusters": result, "ended": []})
        if not chosen:
            where = f" at the other clouds (not asked: {', '.join(seen.unsure)})"
            ui.show(f"nothing to end{where if seen.unsure else ''}")
        return Exit.NOT_GOOD if chosen or seen.unsure else Exit.GOOD
    what = ", ".join(reapable.cluster for reapable in chosen)
    if not ui.confirm(f"Ends all of {what}, and all that is on it. Do it?", yes=yes):
        ui.json({"clusters": result, "ended": []})
        ui.note("nothing was ended")
        return Exit.NOT_GOOD
    gone: list[str] = []
    for reapable in chosen:
        name = reapable.cluster
        gone += ui.run(
            lambda emit, name=name: api.reap(name, emit),
            state="part of it may be ended; the same command continues from there",
        )
    ui.json({"clusters": result, "ended": gone})
    unknown = f"; not asked: {', '.join(seen.unsure)}" if seen.unsure else ""
    ui.show(f"{what}: ended, and the lists of the clouds show nothing any more{unknown}")
    return Exit.NOT_GOOD if seen.unsure else Exit.GOOD
