"""``corral ui``: the cluster in a browser; ``--mlflow``: the tracking server's pages."""

from __future__ import annotations

import html
import os
import tempfile
import webbrowser
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from corral import api
from corral.api.page.page_server import Page
from corral.cli.cluster_choice import cluster, file_of
from corral.cli.options import BROWSER, CLUSTER, JSON, TARGETS, examples, verb_app
from corral.cli.page.ui_tokens import TokensBelow
from corral.cli.terminal.interrupts import ran
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.spec.client import ClientSpec, by_rest
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
Serving = AbstractAsyncContextManager[tuple[Page, Callable[[], Any]]]
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
        "corral ui east.yaml west.yaml",
    ),
)
def ui(  # noqa: PLR0917  # typer calls it by name
    targets: TARGETS = None,
    named: CLUSTER = "",
    user: SLURM_USER = "",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            "-p",
            min=0,
            max=65535,
            help="Port here, of several clusters the first one's; 0 takes free ones.",
        ),
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
    """Show and run a cluster, or several, in a browser.

    Serves the page on this machine's loopback until Ctrl-C, and reaches the controller by ssh. A
    one-time code, shown here, logs you in as a Slurm user; what you may do there, Slurm decides.
    With --controller the page is the controller's own (as with a profile), reached by a tunnel.
    With a profile of `corral login --rest` it runs here with the profile's token, and has what
    Slurm's REST API has: of any cluster with slurmrestd, without its file. Several clusters have a
    page each, with its own code: each page has a switcher, an overview and one search over all.
    Applying a plan takes another code that this terminal shows. Where a machine's sudo wants a
    password, it is asked for here, once for each cluster. Programs use the API: `corral ui token
    --help`.
    """
    screen = Ui(as_json=as_json)
    target, *more = targets or [""]
    if more:
        _for_several(controller=controller, mlflow=mlflow)
        pages = [_administered(screen, name) for name in (target, *more)]
        return _serve_several(screen, pages, user=user, port=port, hours=hours, browser=browser)
    spec = cluster(screen, target, named, administers=False)
    if mlflow:
        return show_tracking(screen, spec, port=port, browser=browser)
    if controller or (isinstance(spec, ClientSpec) and not by_rest(spec)):
        page = api.reach_page(spec, user=user, port=port, hours=hours)
    else:
        page = _page_of(spec, file_of(target, named))
        page = api.serve_page(page.spec, source=page.source, user=user, port=port, hours=hours)
    return _serve_one(screen, page, browser=browser)


def _serve_one(screen: Ui, page: Serving, *, browser: bool) -> int:
    async def serving() -> str:
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


def _for_several(*, controller: bool, mlflow: bool) -> None:
    """Refuse what is for one cluster."""
    if controller or mlflow:
        option = "--controller" if controller else "--mlflow"
        hint = (
            f"corral ui FILE {option}, once for each cluster; the controller's page shows others "
            "by services: {page: {clusters: [...]}}"
        )
        raise CorralError(Code.USAGE, f"{option} is for one cluster", hint=hint)


def _administered(screen: Ui, name: str) -> api.PageOf:
    spec = cluster(screen, name, administers=False)
    if isinstance(spec, ClientSpec) and not by_rest(spec):
        hint = f"corral ui {spec.name}: its controller's page, alone"
        raise CorralError(Code.USAGE, f"{spec.name} is a profile without its file", hint=hint)
    return _page_of(spec, file_of(name))


def _page_of(spec: ClusterSpec, file: str) -> api.PageOf:
    return api.PageOf(spec, str(Path(file).resolve()) if file else "")


def _serve_several(
    screen: Ui,
    pages: list[api.PageOf],
    *,
    user: str,
    port: int,
    hours: float,
    browser: bool,
) -> int:
    def opened(name: str, page: Page) -> None:
        _announce(screen, page, browser=browser, name=name)

    def ended(name: str, reason: str) -> None:
        screen.note(f"{name}: {reason}; the other pages show it as unknown", "yellow")

    serving = api.serve_pages(pages, opened=opened, ended=ended, user=user, port=port, hours=hours)
    try:
        with screen.attended():
            ran(serving)
    except KeyboardInterrupt:
        screen.note("the pages are closed; the clusters keep running")
        return Exit.GOOD
    raise CorralError(Code.UNREACHABLE, "all pages have ended", hint="run corral ui again")


def _announce(screen: Ui, page: Page, *, browser: bool, name: str = "") -> None:
    access = {"url": page.url, "user": page.user, "code": page.code}
    screen.json({"cluster": name, **access} if name else access)
    screen.show(
        f"{name + ': ' if name else ''}{page.url}  as {page.user}",
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
