"""``corral ssh``: log in to a node, or write OpenSSH's configuration."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, OptionsAroundFirst, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.spec.client import ClientSpec
from corral.spec.models import ClusterSpec

app = verb_app()
COMMAND = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CMD", help="Command to run there. Default: a login shell.", show_default=False
    ),
]


@app.command(
    cls=OptionsAroundFirst,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "corral ssh node0",
        "corral ssh node0 -c lab",
        "corral ssh node0 --user alice",
        "corral ssh node0 journalctl -u slurmctld -f",
        "corral ssh --config -o ~/.ssh/corral",
    ),
)
def ssh(  # noqa: PLR0917  # typer calls it by name
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node.", show_default=False)] = "",
    command: COMMAND = None,
    user: Annotated[
        str,
        typer.Option(
            "--user",
            metavar="NAME",
            help="Linux user to log in as. Default: the profile's, else root.",
            show_default=False,
        ),
    ] = "",
    config: Annotated[
        bool,
        typer.Option("--config", help="Print Host blocks for ssh, rsync and editors in its place."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            dir_okay=False,
            help="With --config: write them to a file, in place of the cluster's earlier ones.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="With --config -o: take the cluster's blocks out.")
    ] = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Log in to a node.

    Becomes the system's ssh with the cluster's key and pinned host keys; its exit status is ssh's,
    and CMD goes to a shell there, as with ssh. Options of corral come before CMD. With --user an
    administrator gets that user's login shell. --json prints the command line and runs nothing.

    --config prints OpenSSH configuration: Host CLUSTER is the login node, Host NODE.CLUSTER a
    node. With a profile, or --user, nodes are reached through the login node, as that user.
    """
    ui = Ui(as_json=as_json)
    _require_one(node, output, config=config, remove=remove)
    spec = cluster(ui, named, administers=False, by_ssh="ssh")
    if config:
        return _configure(ui, spec, user, output, remove=remove)
    argv = ui.quietly(lambda: api.ssh_argv(spec, node, command or (), user=user))
    if as_json:
        ui.json({"argv": argv})
        return Exit.GOOD
    try:
        os.execvp(argv[0], argv)  # noqa: S606  # the point of this verb: no shell in between
    except FileNotFoundError as error:
        raise CorralError(
            Code.MISSING_TOOL, "ssh is not installed", hint="install openssh-client"
        ) from error


def _require_one(node: str, output: Path | None, *, config: bool, remove: bool) -> None:
    """Check that the options are for one of the two things that the verb does.

    Raises:
        CorralError: USAGE.
    """
    why = ""
    if not config and (output is not None or remove):
        why = "-o and --remove are for --config"
    elif not config and not node:
        why = "no node given, and no --config for all of them"
    elif config and node:
        why = "--config is for all nodes of a cluster: leave out the node"
    elif remove and output is None:
        why = "--remove needs the file"
    if why:
        hint = "corral ssh NODE, corral ssh --config, corral ssh --config [--remove] -o FILE"
        raise CorralError(Code.USAGE, why, hint=hint)


def _configure(ui: Ui, spec: ClusterSpec, user: str, output: Path | None, *, remove: bool) -> int:
    """Print the cluster's Host blocks, or write or remove them in a file."""
    name = spec.profile.name if isinstance(spec, ClientSpec) else spec.name
    if output is not None and remove:
        changed = api.remove_ssh_config(output, name)
        ui.json({"file": str(output), "changed": changed})
        ui.show(f"{output}: {f'{name} removed' if changed else f'nothing of {name} in it'}")
        return Exit.GOOD
    section = ui.quietly(lambda: api.ssh_config(spec, user=user))
    if output is None:
        ui.json({"config": section})
        ui.show(section.rstrip("\n"))
        return Exit.GOOD
    changed = api.write_ssh_config(output, name, section)
    ui.json({"file": str(output), "changed": changed})
    ui.show(f"{output}: {'written' if changed else 'unchanged'}; try: ssh {name}")
    include = f"Include {shlex.quote(str(output.absolute()))}"
    ui.note(f"once, as the first line of ~/.ssh/config: {include}")
    return Exit.GOOD
