"""``corral advise``: the cheapest cluster on sale that trains a model in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from corral import api
from corral.cli.options import JSON, SIMULATED, examples, verb_app
from corral.cli.terminal.text import clean, right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Code, Exit
from corral.prove.advice.choice import Option

app = verb_app()
SHOWN: Final = 15
HEAD: Final = (
    *("", "provider", "type", "region", *right("nodes", "GPUs", "s/step", "hours", "$")),
    *("capacity", "speed"),
)
FILE = Annotated[
    Path, typer.Argument(metavar="FILE", help="The training run: see the guide, What it costs.")
]
OFFERS = Annotated[
    list[Path] | None,
    typer.Option(
        "--offers",
        metavar="FILE",
        help="Output of `corral offers --all --json` to use in place of asking the clouds; several "
        "times for several outputs, such as that of `corral offers --together`.",
        show_default=False,
    ),
]
ALL = Annotated[
    bool, typer.Option("--all", "-a", help=f"List all machines, not only the first {SHOWN}.")
]


@app.command(
    epilog=examples(
        "corral advise train.yaml",
        "corral offers --all --json > offers.json; corral advise train.yaml --offers offers.json",
    )
)
def advise(
    file: FILE,
    offers: OFFERS = None,
    everything: ALL = False,
    rehearsed: SIMULATED = "",
    as_json: JSON = False,
) -> int:
    """Find the cheapest cluster on sale for a training run.

    FILE holds the steps, a step measured on one node, memory, deadline and budget. Each kind of
    machine on sale is listed with the number of nodes that does the run for the least. Time is
    predicted by the network model of corral bench scaling; the cost includes start-up, storage
    and interruptions. What is unknown is named, and such a cluster is not chosen. Exit status 1
    when no cluster is known to meet deadline and budget.
    """
    ui = Ui(as_json=as_json)
    advised = ui.quietly(lambda: api.advise(file, offers or (), cluster=rehearsed))
    ui.json(advised.as_dict())
    options = advised.advice.options
    shown = options if everything else options[:SHOWN]
    if shown:
        ui.show(table(HEAD, [_row(option) for option in shown]), Text())
    if len(options) > len(shown):
        ui.show(f"{len(options) - len(shown)} more: --all")
    for why, names in _whys(shown).items():
        ui.show(Text(clean(f"{why}: {', '.join(names)}"), "dim"))
    for what in advised.advice.best.assumed if advised.advice.best else ():
        ui.show(Text(clean(f"the cheapest: {what}"), "yellow"))
    for note in advised.advice.notes:
        ui.show(Text(clean(note), "dim"))
    if advised.excerpt:
        ui.show(Text(), Text("The cheapest, in a cluster file:", "bold"), Text(advised.excerpt))
    else:
        ui.show("nothing on sale is known to train this in time and within the budget")
    for name, error in advised.silent.items():
        style = "dim" if error.code is Code.NOT_FOUND else "yellow"
        ui.note(f"{name}: not asked: {error.message}; {error.hint}", style)
    return Exit.GOOD if advised.excerpt else Exit.NOT_GOOD


def _whys(options: Sequence[Option]) -> dict[str, list[str]]:
    """Why machines will not do, or why that is unknown: those of one reason in one line."""
    whys: dict[str, list[str]] = {}
    for option in options:
        for why in (*option.reasons, *(f"unknown: {what}" for what in option.unknown)):
            names = whys.setdefault(why, [])
            names += [_name(option)] if _name(option) not in names else []
    return whys


def _name(option: Option) -> str:
    offer, nodes = option.sale.offer, option.nodes
    return f"{offer.provider} {nodes} x {clean(offer.type)}"


def _row(option: Option) -> tuple[str, ...]:
    offer = option.sale.offer
    verdict = "yes" if option.meets else "no" if option.reasons else "?"
    return (
        verdict,
        offer.provider,
        clean(offer.type) + (" (one cluster)" if option.sale.together else ""),
        clean(", ".join(option.sale.regions)) or "any",
        str(option.nodes),
        str(option.nodes * offer.gpus),
        "?" if option.step is None else f"{option.step:.3g}",
        "?" if option.hours is None else f"{option.hours:.1f}",
        "?" if option.cost is None else f"{option.cost:.2f}",
        offer.capacity.value,
        clean(option.speed),
    )
