"""``corral logout``: forget a profile."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.options import JSON, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()


@app.command(epilog=examples("corral logout lab"))
def logout(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the profile.", show_default=False)
    ],
    as_json: JSON = False,
) -> int:
    """Remove a profile of `corral login` from this machine.

    Jobs go on, and your key and account on the cluster stay.
    """
    ui = Ui(as_json=as_json)
    api.logout(name)
    ui.json({"name": name})
    ui.show(f"profile {name} is removed")
    return Exit.GOOD
