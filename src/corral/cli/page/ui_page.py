"""``corral ui``: the cluster in a browser; ``--mlflow``: the tracking server's pages."""

from __future__ import annotations

import html
import os
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.api.page.page_server import Page
from corral.cli.cluster_choice import cluster
from corral.cli.options import BROWSER, CLUSTER, JSON, TARGET, examples, verb_app
from corral.cli.page.ui_tokens import TokensBelow
from corral.cli.terminal.interrupts import ran
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.spec.client import ClientSpec
from corral.spec.models import ClusterSpec


def show_tracking(screen: Ui, spec: ClusterSpec, *, port: int, browser: bool) -> int:
    """Hold a tunnel to MLflow's pages until Ctrl-C; returns the exit status.

    Raises:
        CorralError: NOT_FOUND, the cluster has no tracking server; UNREACHABLE.
    """

    async def holding() -> str:
        async with api.tracking_page(spec, port=port) as (url, ended):
            screen.json({"url": url})
            screen.show(
                f"{url}  MLflow of {spec.name}", "Ctrl-C closes the tunnel; MLflow keeps running."
            )
            if browser:
                webbrowser.open(url)
            return await ended()

    try:
        with screen.attended():
            reason = ran(holding())
    except KeyboardInterrupt:
        screen.note("the tunnel is closed; MLflow keeps running")
        return Exit.GOOD
    raise CorralError(Code.UNREACHABLE, reason, hint="run corral ui --mlflow again")


app = verb_app()
SLURM_USER = Annotated[
    str,
    typer.Option(
        "--user",
        "-u",
        help="Slurm user to log in as. Default: the cluster's first one.",
        show_default=False,
    ),
]


@app.command(
    cls=TokensBelow,
    epilog=examples(
        "corral ui",
        "corral ui lab.yaml --user kim",
        "corral ui -c lab -b",
        "corral ui --controller",
    ),
)
def ui(  # noqa: PLR0917  # typer calls it by name
    target: TARGET = "",
    named: CLUSTER = "",
    user: SLURM_USER = "",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port here; 0 takes a free one.")
    ] = 0,
    hours: Annotated[
        float, typer.Option("--hours", min=0.1, max=168, help="Hours until the login expires.")
    ] = 8.0,
    browser: BROWSER = False,
    controller: Annotated[
        bool,
        typer.Option(
            "--controller", help="Open the page that runs there as a service (services: ui)."
        ),
    ] = False,
    mlflow: Annotated[
        bool,
        typer.Option("--mlflow", help="Open MLflow's pages in its place (services: mlflow)."),
    ] = False,
    as_json: JSON = False,
) -> int:
    """Show and run the cluster in a browser.

    Serves the page on this machine's loopback until Ctrl-C, and reaches the controller by ssh. A
    one-time code, shown here, logs you in as a Slurm user; what you may do there, Slurm decides.
    With --controller the page is the controller's own (as with a profile), reached by a tunnel.
    Applying a plan takes another code that this terminal shows. Where a machine's sudo wants a
    password, it is asked for here, once. Programs use the API: `corral ui token --help`.
    """
    screen = Ui(as_json=as_json)
    spec = cluster(screen, target, named, administers=False)
    controller = controller or isinstance(spec, ClientSpec)
    if mlflow:
        return show_tracking(screen, spec, port=port, browser=browser)
    given = target or named
    source = str(Path(given).resolve()) if given and api.is_path(given) else ""

    async def serving() -> str:
        if controller:
            page = api.reach_page(spec, user=user, port=port, hours=hours)
        else:
            page = api.serve_page(spec, user=user, source=source, port=port, hours=hours)
        async with page as (served, ended):
            _announce(screen, served, browser=browser)
            return await ended()

    try:
        with screen.attended():
            reason = ran(serving())
    except KeyboardInterrupt:
        screen.note("the page is closed; the cluster keeps running")
        return Exit.GOOD
    raise CorralError(Code.UNREACHABLE, reason, hint="run corral ui again")


def _announce(screen: Ui, page: Page, *, browser: bool) -> None:
    screen.json({"url": page.url, "user": page.user, "code": page.code})
    screen.show(
        f"{page.url}  as {page.user}",
        f"code: {page.code}   (once, within two minutes)",
        "Ctrl-C closes the page; the cluster keeps running.",
    )
    if browser:
        open_secretly(f"{page.url}#code={page.code}")


def open_secretly(url: str) -> None:
    """Open an address with a secret in it in this machine's browser.

    By a file of this user's alone: in an argument list of the browser others on this machine could
    read the secret.
    """
    handle, name = tempfile.mkstemp(prefix="corral-", suffix=".html")
    target = html.escape(url, quote=True)
    with os.fdopen(handle, "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={target}">')
    webbrowser.open(Path(name).as_uri())
