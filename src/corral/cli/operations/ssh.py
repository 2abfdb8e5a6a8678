"""``corral ssh``: log in to a node."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, OptionsAroundFirst, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit

app = verb_app()


@app.command(
    cls=OptionsAroundFirst,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "corral ssh node0",
        "corral ssh node0 -c lab",
        "corral ssh node0 journalctl -u slurmctld -f",
    ),
)
def ssh(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node.", show_default=False)],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="CMD", help="Left out: a login shell.", show_default=False),
    ] = None,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Log in to a node.

    Becomes the system's ssh with the cluster's key and pinned host keys; its exit status is ssh's,
    and CMD goes to a shell there, as with ssh. Options of corral come before CMD. --json prints
    the command line and runs nothing.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False)
    argv = ui.quietly(lambda: api.ssh_argv(spec, node, command or ()))
    if as_json:
        ui.json({"argv": argv})
        return Exit.GOOD
    try:
        os.execvp(argv[0], argv)  # noqa: S606  # the point of this verb: no shell in between
    except FileNotFoundError as error:
        raise CorralError(
            Code.MISSING_TOOL, "ssh is not installed", hint="install openssh-client"
        ) from error
