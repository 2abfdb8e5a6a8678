"""``corral plan``: what ``up`` would change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.api.output import check_folder, write_output
from corral.cli.cluster_choice import again, declared
from corral.cli.lifecycle.planview import plan_lines
from corral.cli.options import CLUSTER, JSON, KEEP_GOING, REHEARSE, TARGET, examples, verb_app
from corral.cli.terminal.files import STDOUT
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit

app = verb_app()


@app.command(
    epilog=examples(
        "corral plan lab.yaml",
        "corral plan lab.yaml --diff",
        "corral plan lab.yaml --out plan.json && corral apply lab.yaml plan.json",
        "corral plan lab.yaml --json | jq .empty",
    )
)
def plan(
    target: TARGET = "",
    *,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="PLAN",
            help="Write the plan to this file, for `corral apply`; - is stdout.",
            show_default=False,
        ),
    ] = "",
    diff: Annotated[
        bool, typer.Option("--diff", "-d", help="Show each change of a file line by line.")
    ] = False,
    keep_going: KEEP_GOING = False,
    rehearse: REHEARSE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Show what `up` would change; changes nothing.

    Reads the file and the machines. Machines that must be made come first; then the stages, each
    with its changes, the nodes that get them, and what they do to the nodes' work: none, reload,
    restart, drain, reboot or recreate. Exit status 0 with something to do and with nothing to do:
    "empty" of --json shows which.
    """
    ui = Ui(as_json=as_json)
    if out not in ("", STDOUT):
        check_folder(Path(out))
    spec = declared(ui, target, named, rehearse=rehearse)
    made = ui.run(
        lambda emit: api.plan(spec, emit, keep_going=keep_going), state="nothing was changed"
    )
    data = made.as_dict()
    text = f"{json.dumps(data, indent=1)}\n"
    if out == STDOUT and not as_json:
        typer.echo(text, nl=False)
        return Exit.GOOD
    if out not in ("", STDOUT):
        _write(Path(out), text)
    ui.json({"empty": made.empty, "impact": made.impact.word, **data})
    ui.show(*plan_lines(made, diff=diff))
    if not made.empty:
        where = again(target, named)
        flag = again(rehearse=rehearse) + (" --keep-going" if keep_going and not out else "")
        todo = f"apply{where} {out}{flag}" if out not in ("", STDOUT) else f"up{where}{flag}"
        ui.show("", f"next: corral {todo}")
    return Exit.GOOD


def _write(path: Path, text: str) -> None:
    try:
        write_output(path, text.encode())
    except OSError as error:
        raise CorralError(
            Code.USAGE, f"{path} cannot be written: {error.strerror}", hint="name another file"
        ) from error
