"""``corral cloud``: what belongs to an entire account at a cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from corral import api
from corral.cli.options import JSON, SIMULATED, YES, examples, verb_app
from corral.cli.terminal.text import clean
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit, cannot_read
from corral.spec.providers import CLOUDS, clouds_with, either, in_words

_MAKERS = either(clouds_with("volumes"))
_FIREWALLED = either(clouds_with("firewall"))
_KEYED = either(clouds_with("account_keys"))
_VOLUME = f"corral cloud volume data -p {clouds_with('volumes')[0]} -r us-west-1"
app = verb_app()


def _of(clouds: tuple[str, ...]) -> Any:
    return typer.Option(
        "--provider",
        "-p",
        metavar="CLOUD",
        help=f"Cloud: {either(clouds)}. Default: the only one that has it.",
        show_default=False,
    )


@app.callback(epilog=examples("corral cloud firewall", _VOLUME))
def cloud() -> None:
    """Show and extend what belongs to an entire cloud account."""


@app.command(
    epilog=examples(
        "corral cloud firewall", "corral cloud firewall --allow udp:41641:0.0.0.0/0 --yes"
    )
)
def firewall(
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="RULE",
            help=f"Add tcp:PORT[-PORT]:NETWORK, udp or icmp ({_FIREWALLED}).",
        ),
    ] = None,
    provider: Annotated[str, _of(clouds_with("firewall"))] = "",
    rehearsed: SIMULATED = "",
    yes: YES = False,
    as_json: JSON = False,
) -> int:
    """Show an account's inbound firewall rules, and add to them.

    The rules hold for all instances of the account, and the cloud replaces them as a whole: they
    are read first, yours are added, you are asked, and they are read again. None is ever dropped.
    Mesh links are direct rather than relayed where udp:41641 is open.
    """
    ui = Ui(as_json=as_json)
    seen = ui.quietly(lambda: api.firewall(allow or (), _asking(ui, yes), rehearsed, provider))
    return _shown(ui, seen)


@app.command(
    "ssh-keys",
    epilog=examples("corral cloud ssh-keys", "corral cloud ssh-keys --add ~/.ssh/id_ed25519.pub"),
)
def ssh_keys(
    add: Annotated[
        list[Path] | None,
        typer.Option("--add", metavar="FILE", help=f"Add the public key in this file ({_KEYED})."),
    ] = None,
    provider: Annotated[str, _of(clouds_with("account_keys"))] = "",
    rehearsed: SIMULATED = "",
    yes: YES = False,
    as_json: JSON = False,
) -> int:
    """Show the ssh keys of an account, and add to them.

    Corral's own pods need none of them: their key goes by the pod's environment. As with firewall
    rules the set is read, extended, asked about, written and read again; no key is ever dropped.
    """
    ui = Ui(as_json=as_json)
    keys = [_read(path) for path in add or ()]
    seen = ui.quietly(lambda: api.account_keys(keys, _asking(ui, yes), rehearsed, provider))
    return _shown(ui, seen)


@app.command(epilog=examples(_VOLUME))
def volume(  # noqa: PLR0917
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the volume.", show_default=False)
    ],
    provider: Annotated[
        str,
        typer.Option(
            "--provider",
            "-p",
            metavar="NAME",
            help=f"Cloud: {_MAKERS}; cloud.volumes takes {in_words('volumes')}.",
        ),
    ],
    region: Annotated[
        str, typer.Option("--region", "-r", metavar="NAME", help="Region or data center.")
    ],
    size: Annotated[
        int,
        typer.Option(
            "--gib",
            min=10,
            max=4096,
            help=f"Size, where the cloud asks ({', '.join(clouds_with('sized'))}).",
        ),
    ] = 100,
    rehearsed: SIMULATED = "",
    as_json: JSON = False,
) -> int:
    """Make a file system of the account; one of that name and region is taken as it is.

    A group attaches it by cloud.volumes. It costs money until you delete it on the provider's page:
    Corral never deletes data.
    """
    ui = Ui(as_json=as_json)
    if provider not in CLOUDS:
        raise CorralError(Code.USAGE, f"no provider {provider}", hint=_MAKERS)
    made, now = ui.quietly(lambda: api.make_volume(provider, name, region, size, rehearsed))
    ui.json({"volume": asdict(made), "made": now})
    where = f", at {made.mount} on instances" if made.mount else ""
    ui.show(f"{'made' if now else 'there already'}: {clean(made.name)} ({clean(made.id)}){where}")
    return Exit.GOOD


def _asking(ui: Ui, yes: bool) -> Callable[[Sequence[str], Sequence[str]], bool]:
    def ask(before: Sequence[str], after: Sequence[str]) -> bool:
        if yes:
            return True
        for line in after:
            ui.show(f"{'  ' if line in before else '+ '}{clean(line)}")
        return ui.confirm("This is the set of the entire account then. Write it?")

    return ask


def _shown(ui: Ui, seen: api.Changed) -> int:
    ui.json({"entries": list(seen.entries), "changed": seen.added})
    ui.show(*[clean(line) for line in seen.entries] or ["none"])
    if not seen.agreed:
        ui.note("nothing was changed")
    return Exit.GOOD if seen.agreed else Exit.NOT_GOOD


def _read(path: Path) -> str:
    try:
        return path.expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.USAGE, cannot_read(path, error), hint="name the .pub file of a key"
        ) from error
