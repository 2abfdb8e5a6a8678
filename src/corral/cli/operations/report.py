"""``corral report``: what became of the cluster's time in a month."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.operations.usage_report import UsageReport
from corral.cli.cluster_choice import cluster
from corral.cli.evidence.prove import written
from corral.cli.options import CLUSTER, HTML, JSON, examples, verb_app
from corral.cli.terminal.text import clean, right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()
MONTH = Annotated[
    str,
    typer.Option(
        "--month",
        metavar="YYYY-MM",
        help="Month to report. Default: the last complete month.",
        show_default=False,
    ),
]
PRICE = Annotated[
    float | None,
    typer.Option(
        "--price",
        metavar="AMOUNT",
        min=0,
        help="Price of a GPU-hour (of a CPU-hour where there are no GPUs), for costs by account. "
        "Default: no costs.",
        show_default=False,
    ),
]


def last_month(now: float) -> str:
    """The month before that of a time in epoch seconds."""
    year, month, *_ = time.localtime(now)
    return f"{year - (month == 1)}-{(month + 10) % 12 + 1:02}"


@app.command(
    epilog=examples(
        "corral report",
        "corral report --month 2026-11 --html november.html",
        "corral report --price 2.10 --json | jq .accounts",
    )
)
def report(
    month: MONTH = "",
    *,
    price: PRICE = None,
    html: HTML = None,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Report a month: use, goodput, queue times, costs.

    From the accounting database: each run of a requeued job and each task of an array counts. What
    each figure means is in docs/guide/report.md. The month is the controller's; of one that goes
    on, what was until now.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named)
    seen = ui.quietly(lambda: api.usage_report(spec, month or last_month(time.time()), price=price))
    if html is not None:
        written(ui, html, api.usage_page(seen))
    ui.json(seen.as_dict())
    ui.show(*report_view(seen))
    return Exit.GOOD


def report_view(seen: UsageReport) -> list[RenderableType]:
    """The head, what became of the hours, the accounts, and nodes that were down."""
    head = Text.assemble((clean(seen.cluster), "bold"), f", {seen.month.name}: ")
    head.append(
        f"{seen.part(seen.total.allocated):.0%} of {seen.capacity:.1f} {seen.unit}-hours in use, "
        f"goodput {seen.part(seen.total.hours['completed']):.0%}"
    )
    shown: list[RenderableType] = [head, Text(), *_tables(seen)]
    if note := api.gpuless_note(seen):
        shown.append(Text(note, "dim"))
    return shown


def _tables(seen: UsageReport) -> Iterator[RenderableType]:
    for head, rows in api.usage_tables(seen).values():
        if rows:
            yield table((head[0], *right(*head[1:])), [tuple(map(clean, row)) for row in rows])
            yield Text()
