"""``corral migrate``: a cluster file in the newest form of its format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.config.lint import diff_lines, rendered
from corral.cli.options import JSON, YES, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.spec.findings import has_errors

app = verb_app()


@app.command(epilog=examples("corral migrate lab.yaml", "corral migrate lab.yaml --yes"))
def migrate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Cluster file.", show_default=False)],
    *,
    yes: YES = False,
    as_json: JSON = False,
) -> int:
    """Write a cluster file in the newest form of its format.

    Fields that `corral lint` reports as deprecated get their new key; comments and order stay.
    Shows the change and saves it after a question. Exit status 1 where something is left to write
    by hand.
    """
    ui = Ui(as_json=as_json)
    path = Path(file)
    made = api.migrate_file(path)
    diff, good = made.edit.diff(), not has_errors(made.edit.findings)
    ui.show(*diff_lines(diff))
    for finding in made.edit.findings:
        ui.show(*rendered(finding, excerpt=False))
    saved = bool(good and diff and ui.confirm(f"save {path}?", yes=yes))
    if saved:
        api.save_file(path, made.edit.before.digest, made.edit.text)
    ui.json(
        {
            "saved": saved,
            "diff": diff,
            "changes": made.changes,
            "left": made.left,
            "findings": [finding.as_dict() for finding in made.edit.findings],
        }
    )
    if not good:
        return Exit.USAGE
    ui.show(*(f"by hand: {line}" for line in made.left))
    if not diff and not made.left:
        ui.show(f"{path} is in the newest form of the format (v1): nothing to change")
    elif saved:
        ui.show(f"saved {path}")
    return Exit.NOT_GOOD if made.left or (diff and not saved) else Exit.GOOD
