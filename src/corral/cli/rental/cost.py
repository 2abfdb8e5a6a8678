"""``corral cost``: what rented machines cost, by provider, node, user and job."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.rental.costs import IDLE, Cost, Line, summed
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, TARGET, examples, verb_app
from corral.cli.terminal.text import clean, right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.plurals import plural

app = verb_app()
SHOWN = 15


@app.command(epilog=examples("corral cost", "corral cost -c lab --json | jq .now"))
def cost(target: TARGET = "", named: CLUSTER = "", as_json: JSON = False) -> int:
    """Show what rented machines cost, by job and user.

    Counted by Corral from the moment before each launch until it saw the end: never less than the
    provider's bill. A job pays the part of a node that it was given; what no job had is a separate
    line. Works by name for clusters that are gone. Exit status 1 when the budget is used up.
    """
    ui = Ui(as_json=as_json)
    seen = _cost(ui, target, named)
    ui.json(seen.as_dict())
    ui.show(*cost_view(seen))
    over = seen.total is not None and seen.now.total >= seen.total
    return Exit.NOT_GOOD if over else Exit.GOOD


def _cost(ui: Ui, target: str, named: str) -> Cost:
    name = target or named
    try:
        spec = cluster(ui, target, named)
    except CorralError as error:
        if error.code is Code.NOT_FOUND and name and name in api.ledgers():
            return api.cost_of_name(name)
        raise
    return ui.quietly(lambda: api.cost(spec))


def cost_view(seen: Cost) -> list[RenderableType]:
    """The head, then one table for each way to split the total."""
    rate = f"{seen.now.rate()} $/h now"
    rate += f" (at most {seen.per_hour:.2f})" if seen.per_hour is not None else ""
    total = f"{seen.now.spent()} $ so far"
    total += f" of {seen.total:.2f}" if seen.total is not None else ""
    shown: list[RenderableType] = [
        Text.assemble((clean(seen.cluster), "bold"), f": {rate}, {total}")
    ]
    if seen.then:
        shown.append(Text(clean(seen.then)))
    for title, lines in (
        ("provider", seen.providers),
        ("node", seen.nodes),
        ("user", seen.users),
        ("job", seen.jobs),
    ):
        if lines:
            shown += [Text(), _table(title, lines)]
    if seen.now.unpriced_ever:
        shown.append(
            Text(f"{plural(seen.now.unpriced_ever, 'machine')} of unknown price", "yellow")
        )
    if any(line.share for line in seen.jobs):
        shown.append(
            Text("at least: CPUs or GPUs of a job or of its machine are unknown to Slurm", "dim")
        )
    if seen.unread:
        shown.append(
            Text(
                f"{plural(seen.unread, 'line')} of accounting could not be read: jobs of it are in "
                f"{IDLE}",
                "yellow",
            )
        )
    if seen.silent:
        shown.append(Text(f"not split by job and user: {clean(seen.silent)}", "dim"))
    return shown


def _table(title: str, lines: tuple[Line, ...]) -> RenderableType:
    rows = list(lines[:SHOWN])
    if len(lines) > SHOWN:
        rows.append(summed(f"{len(lines) - SHOWN} more", lines[SHOWN:]))
    cells = [(clean(x.name), x.in_dollars(), x.in_hours()) for x in rows]
    return table((title, *right("$", "machine hours")), cells)
