"""``corral keys forget``: the pinned host key of a machine that was installed again."""

from __future__ import annotations

from corral import api
from corral.cli.options import CLUSTER, JSON, NODES, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.which import cluster
from corral.errors import Exit

app = verb_app()


@app.command("forget", epilog=examples("corral keys forget node1 -c lab.yaml"))
def forget(nodes: NODES, named: CLUSTER = "", as_json: JSON = False) -> int:
    """Forget the pinned host keys of nodes, as after their machines were installed again.

    The next command sees such a machine for the first time, and shows the key it pins. Compare it
    with the machine's own: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
    """
    ui = Ui(as_json=as_json)
    gone = ui.quietly(lambda: api.forget_host_keys(cluster(ui, named), nodes))
    ui.json({"forgotten": gone})
    for node, prints in gone.items():
        ui.show(f"{node}: {', '.join(prints)} is forgotten" if prints else f"{node}: was not known")
    return Exit.GOOD
