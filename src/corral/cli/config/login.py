"""``corral login``: use a cluster as one of its users, without root."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from corral import api
from corral.cli.options import JSON, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit, cannot_read
from corral.variables import SLURM_TOKEN

app = verb_app()
VARIABLE: Final = SLURM_TOKEN
"""Where Slurm's own commands look for a token."""
LONGEST: Final = 1 << 16


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
REST = Annotated[
    str,
    typer.Option(
        "--rest",
        metavar="URL",
        help="Use slurmrestd at this address in place of ssh, with a token of Slurm's.",
        show_default=False,
    ),
]
TOKEN = Annotated[
    str,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="With --rest: the file with the token, or - for standard input; what scontrol token "
        "prints will do. Default: $SLURM_JWT.",
        show_default=False,
    ),
]
PLAIN = Annotated[
    bool,
    typer.Option(
        "--plain-http", help="With --rest: send the token unencrypted to another machine."
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
        "corral login alice@ --rest https://lab.example.org:6820 --token-file token",
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
    rest: REST = "",
    token_file: TOKEN = "",
    plain: PLAIN = False,
    as_json: JSON = False,
) -> int:
    """Log in to a cluster as one of its users.

    Makes a profile on this machine, with no secret in it: run, shell, attach, jobs, logs, cancel,
    status, profile, data, env, ssh and ui then work with -c NAME as this user, by plain ssh,
    without root and without the cluster file. The only profile is the default.

    The host key is pinned: that of the client file or of your known_hosts, else the one you accept.

    With --rest the profile reaches the cluster by slurmrestd, where ssh is closed: run, jobs,
    cancel and status work. The token is in a file of the profile's that you alone can read.
    """
    ui = Ui(as_json=as_json)
    if not rest and (token_file or plain):
        raise CorralError(
            Code.USAGE, "--token-file and --plain-http go with --rest", hint="name --rest URL"
        )
    if rest:
        return _by_token(ui, address, rest, token_file, name, client, plain=plain)

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
    return _made(ui, done)


def _by_token(  # noqa: PLR0917  # the options of --rest
    ui: Ui, address: str, rest: str, file: str, name: str, client: Path | None, *, plain: bool
) -> int:
    """Log in by slurmrestd.

    Raises:
        CorralError: NOT_FOUND, no file with the token; as ``api.login_rest``.
    """
    parts = api.Address.read(address)
    if parts.user and parts.host:
        raise CorralError(
            Code.USAGE,
            f"{address} names a host, and --rest another",
            hint=f"corral login {parts.user}@ --rest {rest}",
        )
    token, about = _token(file), api.client_file(client) if client else None
    user = parts.user or parts.host
    return _made(
        ui,
        ui.quietly(lambda: api.login_rest(user, rest, token, name=name, client=about, plain=plain)),
    )


def _token(file: str) -> str:
    """The text with the token; a command line is seen by all users of a machine, so none is there.

    Raises:
        CorralError: NOT_FOUND; USAGE, none is given.
    """
    if not file:
        token = os.environ.get(VARIABLE, "")
        if not token:
            raise CorralError(
                Code.USAGE,
                f"no token given: no --token-file, and ${VARIABLE} is empty",
                hint="on a node of the cluster: scontrol token lifespan=28800 > token; then "
                "--token-file token here",
            )
        return token
    try:
        if file == "-":
            return sys.stdin.read(LONGEST)
        with Path(file).expanduser().open(encoding="utf-8") as stream:
            return stream.read(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.NOT_FOUND,
            cannot_read(f"the file with the token, {file},", error),
            hint="name a file with a token: --token-file FILE",
        ) from error


def _made(ui: Ui, done: api.LoggedIn) -> int:
    """Report a new profile."""
    profile = done.profile
    shown = profile.model_dump(mode="json", exclude={"cluster", "host_keys"})
    ui.json({**shown, "notes": list(done.notes)})
    where = "" if profile.rest else f", node {profile.node}"
    ui.show(f"profile {profile.name}: {profile.user}@{profile.host}{where}")
    for note in done.notes:
        ui.note(note, "yellow")
    ui.show(f"next: corral status -c {shlex.quote(profile.name)}")
    return Exit.GOOD
