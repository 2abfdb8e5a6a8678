"""``corral cost``: what rented machines cost, by provider, node, user and job."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.costs import Cost, Line
from corral.cli.options import CLUSTER, JSON, TARGET, examples, verb_app
from corral.cli.text import clean, table
from corral.cli.ui import Ui
from corral.cli.which import cluster
from corral.errors import Code, CorralError, Exit

app = verb_app()
SHOWN = 15


@app.command(epilog=examples("corral cost", "corral cost -c lab --json | jq .now"))
def cost(target: TARGET = "", wanted: CLUSTER = "", as_json: JSON = False) -> int:
    """Show what rented machines cost, by job and user.

    Counted by Corral from the moment before each launch until it saw the end: never less than the
    provider's bill. A job pays the part of a node that it was given; what no job had is a line of
    its own. Works by name for clusters that are gone. Exit status 1 when the budget is used up.
    """
    ui = Ui(as_json=as_json)
    seen = _cost(ui, target, wanted)
    ui.json(seen.as_dict())
    ui.show(*cost_view(seen))
    over = seen.total is not None and seen.now.total >= seen.total
    return Exit.NOT_GOOD if over else Exit.GOOD


def _cost(ui: Ui, target: str, wanted: str) -> Cost:
    name = target or wanted
    try:
        spec = cluster(ui, target, wanted)
    except CorralError as error:
        if error.code is Code.NOT_FOUND and name and name in api.ledgers():
            return api.cost_of_name(name)
        raise
    return ui.quietly(lambda: api.cost(spec))


def cost_view(seen: Cost) -> list[RenderableType]:
    """The head, then one table for each way to split the total."""
    rate = f"{seen.now.per_hour:.2f} $/h now"
    rate += f" (at most {seen.per_hour:.2f})" if seen.per_hour is not None else ""
    total = f"{seen.now.total:.2f} $ so far"
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
    if seen.now.unpriced:
        shown.append(Text(f"{seen.now.unpriced} machines have a price that nobody knows", "yellow"))
    if seen.silent:
        shown.append(Text(f"not split by job and user: {clean(seen.silent)}", "dim"))
    return shown


def _table(title: str, lines: tuple[Line, ...]) -> RenderableType:
    rows = [(clean(x.name), f"{x.dollars:.2f}", f"{x.hours:.2f}") for x in lines[:SHOWN]]
    if len(lines) > SHOWN:
        rest = lines[SHOWN:]
        rows.append(
            (
                f"{len(rest)} more",
                f"{sum(x.dollars for x in rest):.2f}",
                f"{sum(x.hours for x in rest):.2f}",
            )
        )
    return table((title, "$", "machine hours"), rows, right="$ machine hours")
