"""``corral version``: which Corral runs, and whether there is a newer one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from corral import api
from corral.cli.options import JSON, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()


@app.command(epilog=examples("corral version", "corral version --check"))
def version(
    *,
    check: Annotated[
        bool,
        typer.Option("--check", help="Ask where it was installed from for a newer release."),
    ] = False,
    as_json: JSON = False,
) -> int:
    """Print the version, and where it comes from.

    With --check: asks that place, and no other, for a newer release. Without a network it ends
    within seconds and reports that it is unknown. Exit status 1 where there is a newer release.
    """
    ui = Ui(as_json=as_json)
    here = api.installation()
    ui.show(
        f"corral {here.version or 'of an unknown version'}, Python {here.python}",
        _from(here),
    )
    if not check:
        ui.json(asdict(here))
        return Exit.GOOD
    newer = ui.run(lambda _: api.newer_release(here))
    ui.json({**asdict(here), "check": asdict(newer)})
    match newer.state:
        case "newer":
            ui.show(f"newer: {newer.newest}, at {newer.asked}", f"get it: {newer.upgrade}")
            return Exit.NOT_GOOD
        case "current":
            ui.show(f"the newest release at {newer.asked} is {newer.newest}")
        case "unknown":
            why = ": ".join(filter(None, (newer.asked, newer.reason)))
            ui.show(f"whether there is a newer release is unknown: {why}")
    return Exit.GOOD


def _from(here: api.Installation) -> str:
    match here.kind:
        case "source":
            return f"run from the folder {here.origin}, not installed"
        case "index":
            return "installed by its name, from an index or a folder of wheels"
        case "checkout" | "repository" | "file" | "address":
            return f"installed from {here.origin}"
