"""``corral ui --mlflow``: the tracking server's pages, by a tunnel."""

from __future__ import annotations

import webbrowser

from corral import api
from corral.cli.terminal.interrupts import ran
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
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
                f"{url}  MLflow of {spec.name}", "Ctrl-C closes the tunnel; MLflow goes on."
            )
            if browser:
                webbrowser.open(url)
            return await ended()

    try:
        with screen.attended():
            reason = ran(holding())
    except KeyboardInterrupt:
        screen.note("the tunnel is closed; MLflow goes on")
        return Exit.GOOD
    raise CorralError(Code.UNREACHABLE, reason, hint="run corral ui --mlflow again")
