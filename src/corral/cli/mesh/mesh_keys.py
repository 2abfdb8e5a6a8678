"""``corral keys rotate --which mesh``: new node keys in the tailnet."""

from __future__ import annotations

from corral import api
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.spec.models import ClusterSpec


def rotate_mesh(ui: Ui, spec: ClusterSpec, *, yes: bool) -> int:
    """Ask, give each node a new key, and report which have one.

    Raises:
        CorralError: USAGE, standard input is not a terminal.
    """
    if not yes:
        ui.show(
            "* each node that Corral brought into the tailnet gets a new node key, one after the "
            "other; addresses, connections and jobs stay"
        )
    if not ui.confirm("Do it?", yes=yes):
        ui.json({"rotated": []})
        return Exit.NOT_GOOD
    done = ui.run(
        lambda emit: api.rotate_mesh(spec, emit),
        state="some nodes have a new key, others the old one; both are good",
    )
    ui.json({"rotated": list(done)})
    ui.show(f"new node keys: {', '.join(done) or 'none, no node was brought in by Corral'}")
    return Exit.GOOD
