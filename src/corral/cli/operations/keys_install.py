"""``corral keys install``: one password login per machine, and never again."""

from __future__ import annotations

from corral import api
from corral.cli.options import CLUSTER, JSON, NODES_OPTION, TARGET, examples, verb_app
from corral.cli.terminal.text import table
from corral.cli.terminal.ui import Ui
from corral.cli.which import declared
from corral.errors import Exit

app = verb_app()


@app.command(
    "install",
    epilog=examples("corral keys install lab.yaml", "corral keys install lab.yaml -n node2"),
)
def install(
    target: TARGET = "",
    *,
    nodes: NODES_OPTION = "",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Make the cluster's key, put it on its machines and prove that it logs in.

    Makes an Ed25519 key in the cluster's folder (or the file that ssh.key names) and writes it to
    the login user's authorized_keys on each machine. Where no key of yours logs in yet, it asks for
    the password, once for all machines; the password is written nowhere. Each key is proven by a
    second connection that can use nothing else. Machines that have the key are left as they are.
    """
    ui = Ui(as_json=as_json)
    spec = declared(ui, target, named)
    done = ui.run(lambda emit: api.install_keys(spec, emit, nodes=nodes), state="run it again")
    ui.json({"good": all(k.ok for k in done), "nodes": [k.as_dict() for k in done]})
    rows = [(k.node, k.login, k.how if k.ok else str(k.error and k.error.message)) for k in done]
    ui.show(table(("node", "login", "key"), rows))
    for key in done:
        if key.error is not None:
            ui.note(f"{key.error}. hint: {key.error.hint}", "bold red")
    return Exit.GOOD if all(k.ok for k in done) else Exit.FAILED
