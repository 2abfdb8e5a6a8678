"""``corral exec``: a command on nodes, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.api.operations.nodes import Outcome
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, RAW, examples, verb_app
from corral.cli.terminal.text import coloured
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.spec.slurm.hostlist import fold

app = verb_app()


@app.command(
    "exec",
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "corral exec -- uptime",
        "corral exec -n node[0-1] -- systemctl status slurmd",
        "corral exec -n node2 -- sh -c 'dmesg | tail'",
    ),
)
def exec_(
    command: Annotated[
        list[str],
        typer.Argument(metavar="CMD", help="Program and arguments.", show_default=False),
    ],
    nodes: Annotated[
        str,
        typer.Option(
            "--nodes",
            "-n",
            metavar="NODES",
            help="Nodes to run it on: node[0-2]. Default: all.",
            show_default=False,
        ),
    ] = "",
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="Give a node up after this.", min=1),
    ] = 600.0,
    *,
    raw: RAW = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Run a command as root on nodes, all at once.

    Each line of output has its node in front; nodes with equal output are shown together. The
    command is given to no shell: write sh -c '...' for pipes and variables. Exit status 1 when it
    failed on a node, 3 when a node could not be reached.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named)
    outcomes = ui.quietly(lambda: api.execute(spec, command, nodes, timeout=timeout))
    ui.json({"good": all(o.ok for o in outcomes), "nodes": [o.as_dict() for o in outcomes]})
    if not as_json:
        _show(ui, outcomes, raw=raw)
    if any(outcome.error for outcome in outcomes):
        return Exit.FAILED
    return Exit.GOOD if all(outcome.ok for outcome in outcomes) else Exit.NOT_GOOD


def _show(ui: Ui, outcomes: Sequence[Outcome], *, raw: bool) -> None:
    for nodes, outcome in folded(outcomes):
        for console, text in ((ui.out, outcome.stdout), (ui.err, outcome.stderr)):
            for line in text.splitlines():
                if raw:
                    ui.raw(f"{nodes}: {line}", err=console is ui.err)
                    continue
                prefixed = Text.assemble((f"{nodes}: ", "cyan")).append_text(coloured(line))
                console.print(prefixed, soft_wrap=True)
        if outcome.error is not None:
            ui.note(f"{nodes}: {outcome.error.message}. hint: {outcome.error.hint}", "bold red")
        elif not outcome.ok:
            ui.note(f"{nodes}: exit status {outcome.status}", "bold red")


def folded(outcomes: Sequence[Outcome]) -> list[tuple[str, Outcome]]:
    """Outcomes that are the same, once, with their nodes folded; in the order of first nodes."""
    groups: dict[tuple[object, ...], list[Outcome]] = {}
    for outcome in outcomes:
        error = str(outcome.error.message) if outcome.error else ""
        key = (outcome.status, outcome.stdout, outcome.stderr, error)
        groups.setdefault(key, []).append(outcome)
    return [(fold([o.node for o in group]), group[0]) for group in groups.values()]
