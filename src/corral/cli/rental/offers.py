"""``corral offers``: what clouds have on sale, with price and capacity."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from corral import api
from corral.cli.options import JSON, SIMULATED, examples, verb_app
from corral.cli.terminal.text import clean, right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.spec.providers import CLOUDS, clouds_with, in_words

app = verb_app()
HEAD = ("provider", "type", "region", "GPUs", *right("vCPUs", "memory", "$/hour"), "capacity")
GPU = Annotated[
    str,
    typer.Option("--gpu", "-g", metavar="WORD", help="Only GPUs with this word in their name."),
]
_ONE_OF = f"Cloud, one of {', '.join(CLOUDS)}. Their keys: {in_words('variable')}."
PROVIDER = Annotated[
    list[str] | None,
    typer.Option("--provider", "-p", metavar="NAME", help=_ONE_OF),
]
ALL = Annotated[bool, typer.Option("--all", "-a", help="Also what is not available now.")]
TOGETHER = Annotated[
    bool,
    typer.Option(
        "--together",
        help="Machines that come as one cluster of the cloud's own "
        f"({', '.join(clouds_with('clusters'))}, cloud.cluster).",
    ),
]


@app.command(
    epilog=examples(
        "corral offers --gpu h100",
        f"corral offers -p {clouds_with('clusters')[0]} --together",
        f"corral offers -p {CLOUDS[0]} --all --json | jq .offers",
    )
)
def offers(
    gpu: GPU = "",
    provider: PROVIDER = None,
    everything: ALL = False,
    *,
    together: TOGETHER = False,
    rehearsed: SIMULATED = "",
    as_json: JSON = False,
) -> int:
    """Show what clouds have on sale, and its price.

    Asks every cloud of which there is a key: in its variable, a file or the keyring (see the guide,
    Clouds). Capacity is what the cloud reports; a launch may be refused all the same. Exit status 1
    when nothing fits, or a cloud that was named cannot be asked.
    """
    ui = Ui(as_json=as_json)
    for name in provider or ():
        if name not in CLOUDS:
            raise CorralError(
                Code.USAGE, f"no provider {name} rents machines", hint=f"one of {', '.join(CLOUDS)}"
            )
    sale = ui.quietly(
        lambda: api.offers(
            provider or (), gpu, everything=everything, cluster=rehearsed, together=together
        )
    )
    ui.json(sale.as_dict())
    rows = [
        (
            offer.provider,
            clean(offer.type),
            clean(offer.region) or "any",
            f"{offer.gpus}x {clean(offer.gpu)}" if offer.gpus else "-",
            str(offer.vcpus or "-"),
            f"{offer.memory_mib / 1024:.0f} GiB" if offer.memory_mib else "-",
            "?" if offer.price is None else f"{offer.price:.2f}",
            offer.capacity.value,
        )
        for offer in sale.offers
    ]
    if rows:
        ui.show(table(HEAD, rows))
    else:
        ui.show("nothing fits; --all also shows what is not available now")
    for volume in sale.volumes:
        ui.show(Text(f"file system at {volume.provider}: {clean(volume.name)} in {volume.region}"))
    for name, cloud in sale.traits.items():
        for text in (cloud.no_dead_man, *cloud.notes):
            if text:
                ui.note(f"{name}: {text}", "dim")
    for name, error in sale.silent.items():
        what = "no file systems" if name in sale.traits else "not asked"
        style = "dim" if error.code is Code.NOT_FOUND else "yellow"
        ui.note(f"{name}: {what}: {error.message}; {error.hint}", style)
    failed = any(name in sale.silent for name in provider or ())
    return Exit.GOOD if rows and not failed else Exit.NOT_GOOD
