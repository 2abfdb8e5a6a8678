"""``corral keys``: install, forget and rotate the keys of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster, declared
from corral.cli.options import (
    CLUSTER,
    JSON,
    NODES,
    NODES_OPTION,
    REHEARSE,
    TARGET,
    YES,
    examples,
    verb_app,
)
from corral.cli.terminal.text import table
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.spec.models import ClusterSpec

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


@app.command(
    "rotate",
    epilog=examples("corral keys rotate lab.yaml", "corral keys rotate lab.yaml --which all --yes"),
)
def rotate(
    target: TARGET = "",
    *,
    which: Annotated[
        str,
        typer.Option(
            "--which",
            metavar="KEY",
            help="auth: the key that nodes know each other by (slurm.jwks or munge.key); munge: "
            "the same, only where it is munge's; jwt: the key of tokens; mesh: the nodes' keys in "
            "the tailnet; all: all but mesh.",
        ),
    ] = "auth",
    yes: YES = False,
    rehearse: REHEARSE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Replace keys on all machines of a running cluster; jobs run on.

    With auth/slurm the old and the new key are good at the same time until all daemons have the new
    one. munge knows one key only: it is away for a moment on all nodes at once. With a new JWT key
    all tokens made before end. After an interruption, the same command resumes.
    """
    ui = Ui(as_json=as_json)
    if which == "mesh":
        return rotate_mesh(ui, declared(ui, target, named, rehearse=rehearse), yes=yes)
    try:
        keys = api.Which(which)
    except ValueError as error:
        raise CorralError(
            Code.USAGE,
            f"--which is {which}, and must name a kind of key",
            hint="write one of: auth, munge, jwt, mesh, all",
        ) from error
    spec = declared(ui, target, named, rehearse=rehearse)
    if not yes:
        ui.show(*(f"* {line}" for line in api.rotation_of(spec, keys)))
    if not ui.confirm("Do it?", yes=yes):
        ui.json({"rotated": []})
        return Exit.NOT_GOOD
    done = ui.run(
        lambda emit: api.rotate_keys(spec, emit, which=keys),
        state="keys may differ between machines: run the same command again, it continues",
    )
    ui.json({"rotated": [key.as_dict() for key in done]})
    ui.show(*(f"{key.path}: new on {len(key.nodes)} machines; {key.means}" for key in done))
    return Exit.GOOD


@app.callback(epilog=examples("corral keys install lab.yaml", "corral keys rotate lab.yaml"))
def keys() -> None:
    """Set up, forget and replace the keys of a cluster."""
