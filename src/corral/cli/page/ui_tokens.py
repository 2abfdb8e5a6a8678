"""``corral ui token``: tokens with which programs use the page's API."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, YES, examples, verb_app
from corral.cli.terminal.text import table
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.spec.client import ClientSpec
from corral.spec.models import ClusterSpec

app = verb_app()
USER = Annotated[
    str,
    typer.Option(
        "--user", "-u", help="Slurm user. Default: the cluster's first one.", show_default=False
    ),
]
CONTROLLER = Annotated[
    bool,
    typer.Option(
        "--controller",
        help="For the page that runs on the controller (services: ui), not for the one that runs "
        "on this machine.",
    ),
]


class TokensBelow(TyperCommand):
    """A command whose first word may be ``token``, a separate group; any other is an argument."""

    @property
    def below(self) -> dict[str, Any]:
        """Groups by their word: not ``commands``, for it is a command itself."""
        return {"token": _group()}

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the group where its word comes first."""
        if args[:1] == ["token"]:
            words = args[1:] or ["--help"]
            return _group().make_context(f"{info_name} token", words, parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)


def _group() -> Any:
    group = get_command(app)
    group.name = "token"
    return group


@app.callback(
    epilog=examples(
        "corral ui token create ci --scope read --scope submit",
        "corral ui token list",
        "corral ui token revoke ci",
    )
)
def token() -> None:
    """Make, list and revoke tokens of the page's API.

    A program sends one as `Authorization: Bearer TOKEN`. A token acts as one Slurm user, for the
    scopes that it was made with, until it expires or is revoked. The page must be open to be asked.
    """


@app.command(
    epilog=examples(
        "corral ui token create ci --scope read --scope submit --days 90",
        "corral ui token create nightly -c lab --scope administer",
        "corral ui token create dashboard --controller --user kim",
    )
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name in lists.")],
    named: CLUSTER = "",
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            "-s",
            metavar="SCOPE",
            help="read: see nodes, jobs and their output; submit: submit and change jobs; "
            "administer: drain and resume nodes, doctor, plan, proof. May be repeated. "
            "Default: read.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[
        float, typer.Option("--days", min=0.01, max=365, help="Days until the token expires.")
    ] = 30.0,
    user: USER = "",
    controller: CONTROLLER = False,
    as_json: JSON = False,
) -> int:
    """Make a token and print it, once.

    Corral keeps a digest of it, by which it cannot be found again: copy it now. Slurm decides in
    addition what its user may do.
    """
    ui = Ui(as_json=as_json)
    asked = api.wished_token(name, user, scope or [], days)
    spec, there = _page_of(ui, named, controller=controller)
    made = ui.quietly(lambda: api.make_api_token(spec, asked, controller=there))
    ui.json(made)
    ui.show(made["token"])
    ends = _day(made["ends"])
    ui.note(f"as {made['user']}, scopes {', '.join(made['scopes'])}, until {ends}")
    ui.note("this is the only time that it is shown")
    return Exit.GOOD


@app.command("list", epilog=examples("corral ui token list", "corral ui token list --json"))
def list_(
    named: CLUSTER = "",
    *,
    user: USER = "",
    controller: CONTROLLER = False,
    as_json: JSON = False,
) -> int:
    """List the tokens that are good, newest first."""
    ui = Ui(as_json=as_json)
    spec, there = _page_of(ui, named, controller=controller)
    tokens = ui.quietly(lambda: api.api_tokens(spec, user=user, controller=there))
    ui.json({"tokens": list(tokens)})
    if not tokens:
        ui.show("there is no token; next: corral ui token create NAME")
        return Exit.GOOD
    rows = [
        (t["id"], t["name"], t["user"], ", ".join(t["scopes"]), _day(t["made"]), _day(t["ends"]))
        for t in tokens
    ]
    ui.show(table(("id", "name", "user", "scopes", "made", "expires"), rows))
    return Exit.GOOD


@app.command(epilog=examples("corral ui token revoke ci", "corral ui token revoke 3f1c9a02"))
def revoke(
    identity: Annotated[
        str,
        typer.Argument(metavar="NAME|ID", help="Name or id, as `corral ui token list` prints it."),
    ],
    named: CLUSTER = "",
    *,
    user: USER = "",
    controller: CONTROLLER = False,
    yes: YES = False,
    as_json: JSON = False,
) -> int:
    """Revoke a token: it is refused from the next request on."""
    ui = Ui(as_json=as_json)
    spec, there = _page_of(ui, named, controller=controller)
    if not ui.confirm(f"revoke the token {identity}?", yes=yes):
        return Exit.NOT_GOOD
    ui.quietly(lambda: api.revoke_api_token(spec, identity, user=user, controller=there))
    ui.json({"revoked": identity})
    ui.show(f"{identity} is revoked")
    return Exit.GOOD


def _page_of(ui: Ui, named: str, *, controller: bool) -> tuple[ClusterSpec, bool]:
    """The cluster, and whether its page is the controller's: a profile has no other."""
    spec = cluster(ui, named, administers=False)
    return spec, controller or isinstance(spec, ClientSpec)


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
