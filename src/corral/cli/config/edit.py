"""``corral edit``: change one entry of a cluster file, its comments and order as they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.api.config.entry_edits import SECTIONS
from corral.cli.cluster_choice import file_of
from corral.cli.config.lint import diff_lines, rendered
from corral.cli.options import CLUSTER, JSON, YES, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.spec.findings import has_errors

app = verb_app()


@app.command(
    epilog=examples(
        "corral edit users alice limits.gpus=4 -c lab.yaml",
        "corral edit users bob uid=2010 account=vision",
        "corral edit users bob limits.gpus=",
        "corral edit reservations upgrade start=2030-01-31T08:00 duration=4:00",
        "corral edit reservations upgrade --remove",
        "corral edit licenses matlab count=10 --yes",
    )
)
def edit(
    section: Annotated[
        str, typer.Argument(metavar="LIST", help=f"{', '.join(SECTIONS)}.", show_default=False)
    ],
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Name of the entry; a new one is added."),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIELD=VALUE",
            help="Fields to set; no value takes the field out. Lists are divided by commas.",
            show_default=False,
        ),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take the entry out.")] = False,
    named: CLUSTER = "",
    yes: YES = False,
    as_json: JSON = False,
) -> int:
    """Change a user, account, QOS, reservation or licence in the cluster file.

    Shows the change of the text and the findings of the file's rules, and saves it after a
    question. Comments and order stay. `corral up` then makes the cluster so.
    """
    ui = Ui(as_json=as_json)
    fields = _fields(words or ())
    if remove == bool(fields):
        raise CorralError(
            Code.USAGE, "nothing to change, or two things", hint="FIELD=VALUE, or --remove alone"
        )
    file = file_of(named)
    if not file:
        raise CorralError(
            Code.NOT_FOUND, f"the file of cluster {named} is not known here", hint="-c FILE"
        )
    path = Path(file)
    change = api.edit_entry(path, section, name, None if remove else fields)
    ui.show(*diff_lines(change.diff()))
    for finding in change.findings:
        ui.show(*rendered(finding, excerpt=False))
    good = not has_errors(change.findings)
    saved = bool(good and change.diff() and ui.confirm(f"save {path}?", yes=yes))
    if saved:
        api.save_file(path, change.before.digest, change.text)
    findings = [finding.as_dict() for finding in change.findings]
    ui.json({"saved": saved, "diff": change.diff(), "findings": findings})
    if not good:
        return Exit.USAGE
    if not change.diff():
        ui.show("nothing changes: the file has it so")
    elif saved:
        ui.show(f"saved {path}; corral up makes the cluster so")
    return Exit.GOOD if saved or not change.diff() else Exit.NOT_GOOD


def _fields(words: Iterable[str]) -> dict[str, str]:
    """What is set, by the field's name.

    Raises:
        CorralError: USAGE, a word without ``=``.
    """
    fields: dict[str, str] = {}
    for word in words:
        field, equals, value = word.partition("=")
        if not equals:
            raise CorralError(Code.USAGE, f"{word}: no value", hint="FIELD=VALUE")
        fields[field] = value
    return fields
