"""``corral login``: use a cluster as one of its users, without root."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.options import JSON, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

app = verb_app()


ADDRESS = Annotated[
    str,
    typer.Argument(
        metavar="USER@HOST",
        help="Your account, and the controller or another node where people log in: a name, an "
        "address or a Host of your ssh config. Each part has its default in --client.",
        show_default=False,
    ),
]
NAME = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Name of the profile. Default: the cluster's.",
        show_default=False,
    ),
]
IDENTITY = Annotated[
    Path | None,
    typer.Option(
        "--identity",
        "-i",
        metavar="FILE",
        help="Private key. Default: what ssh finds itself (agent, ssh config, ~/.ssh).",
        show_default=False,
    ),
]
CLIENT = Annotated[
    Path | None,
    typer.Option(
        "--client",
        metavar="FILE",
        help="Client file of an administrator (corral export client): it has the host keys.",
        show_default=False,
    ),
]
PORT = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        min=1,
        max=65535,
        help="Port of sshd. Default: that of the ssh config, else 22.",
        show_default=False,
    ),
]
ACCEPT = Annotated[
    bool,
    typer.Option("--accept-host-key", help="Accept a host key that is seen for the first time."),
]


@app.command(
    epilog=examples(
        "corral login alice@lab.example.org",
        "corral login alice@10.0.0.10 --name lab --identity ~/.ssh/id_lab",
        "corral login --client lab.json",
        "corral login alice@ --client lab.json",
    )
)
def login(
    address: ADDRESS = "",
    *,
    name: NAME = "",
    identity: IDENTITY = None,
    client: CLIENT = None,
    port: PORT = None,
    accept: ACCEPT = False,
    as_json: JSON = False,
) -> int:
    """Log in to a cluster as one of its users.

    Makes a profile on this machine, with no secret in it: run, shell, attach, jobs, logs, cancel,
    status, profile, data, env, ssh and ui then work with -c NAME as this user, by plain ssh,
    without root and without the cluster file. The only profile is the default.

    The host key is pinned: that of the client file or of your known_hosts, else the one you accept.
    """
    ui = Ui(as_json=as_json)

    def accepted(host: str, prints: tuple[str, ...]) -> bool:
        ui.note(f"{host} shows host key {', '.join(prints)}")
        question = "is it the one that an administrator names?"
        return accept or (ui.interactive and ui.confirm(question, state="nothing was written"))

    file = api.client_file(client) if client else None
    done = ui.quietly(
        lambda: api.login(
            api.Address.read(address),
            name=name,
            identity=identity,
            client=file,
            port=port or 0,
            accept=accepted,
        )
    )
    profile = done.profile
    shown = profile.model_dump(mode="json", exclude={"cluster", "host_keys"})
    ui.json({**shown, "notes": list(done.notes)})
    ui.show(f"profile {profile.name}: {profile.user}@{profile.host}, node {profile.node}")
    for note in done.notes:
        ui.note(note, "yellow")
    ui.show(f"next: corral status -c {shlex.quote(profile.name)}")
    return Exit.GOOD
