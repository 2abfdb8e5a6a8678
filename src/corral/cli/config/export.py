"""``corral export``: a cluster file for other people's tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.api.output import write_output
from corral.cli.cluster_choice import cluster, declared
from corral.cli.options import CLUSTER, JSON, TARGET, examples, verb_app
from corral.cli.terminal.files import folder_of
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit, cannot_read
from corral.spec.providers import OWNED, TOOLS, Tool

OUTPUT = Annotated[
    str, typer.Option("--output", "-o", metavar="DIR", help="Folder to write; made when missing.")
]
LISTING = Annotated[
    str, typer.Option("--from", metavar="LISTING", help="File with the output of ibnetdiscover.")
]
PLUGIN = Annotated[
    str, typer.Option("--plugin", metavar="tree|block", help="Kind of topology: tree or block.")
]
SYSTEM = Annotated[
    str,
    typer.Option(
        "--system", metavar="ubuntu|debian", help="Distribution whose installer reads the files."
    ),
]
KEY = Annotated[
    list[str], typer.Option("--key", metavar="FILE", help="A public key that logs in; repeatable.")
]
DISK = Annotated[
    str, typer.Option("--disk", metavar="DEVICE", help="The disk that is erased: /dev/nvme0n1.")
]
GATEWAY = Annotated[
    str,
    typer.Option(
        "--gateway",
        metavar="ADDR/PREFIX",
        help="Router, such as 192.168.1.1/24: addresses are static. Default: none, addresses by "
        "DHCP.",
        show_default=False,
    ),
]
DNS = Annotated[
    list[str],
    typer.Option(
        "--dns",
        metavar="ADDR",
        help="Name server; repeatable. Default: the router.",
        show_default=False,
    ),
]
INTERFACE = Annotated[
    str,
    typer.Option(
        "--interface",
        metavar="NAME",
        help="Wired interface, such as eno1. Default: network.data.interface of the file, "
        "else any.",
        show_default=False,
    ),
]
HASH = Annotated[
    str,
    typer.Option(
        "--password-hash",
        metavar="FILE",
        help="File with the output of openssl passwd -6, the password for console and sudo. "
        "Default: no password.",
        show_default=False,
    ),
]
LOCALE = Annotated[str, typer.Option("--locale", help="Language of the machines.")]
KEYBOARD = Annotated[str, typer.Option("--keyboard", help="Keyboard layout.")]
TIMEZONE = Annotated[str, typer.Option("--timezone", help="Time zone.")]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]

_AUTOINSTALL = f"""\
Write answers for an unattended installation of each machine.

For your own machines (provider {OWNED}) that have no operating system yet: autoinstall of Ubuntu
Server, or a preseed file of Debian. Each machine gets its node's name, the group's login user
with your key, its address by DHCP or as the file has it, sshd without passwords, and no Wi-Fi.
The installation erases the disk without a question.
"""

app = verb_app()


@app.callback(
    epilog=examples(
        *(tool.examples[0] for tool in TOOLS.values()),
        "corral export topology dgx.yaml --from fabric.txt",
        "corral export autoinstall lab.yaml --key id.pub --disk /dev/nvme0n1 -o media",
    )
)
def export() -> None:
    """Write a cluster for other people's tools."""


def _verb(name: str, tool: Tool) -> None:
    """Add the verb that writes a tool's files."""

    @app.command(name, help=tool.help, epilog=examples(*tool.examples))
    def written(
        target: TARGET = "",
        *,
        output: OUTPUT,
        overwrite: OVERWRITE = False,
        named: CLUSTER = "",
        as_json: JSON = False,
    ) -> int:
        ui = Ui(as_json=as_json)
        spec = declared(ui, target, named)
        done = api.export_tool(name, spec, folder_of(output), overwrite=overwrite)
        ui.json(done.as_dict())
        ui.show(*(f"{done.folder}/{file}" for file in done.files))
        for line in done.left:
            ui.note(f"not carried over: {line}", "yellow")
        ui.show(f"next, in {tool.place or done.folder}:", *(f"  {line}" for line in done.next))
        return Exit.GOOD

    _ = written


for _name, _tool in TOOLS.items():
    _verb(_name, _tool)


@app.command(
    help=_AUTOINSTALL,
    epilog=examples(
        "corral export autoinstall lab.yaml --key id.pub --disk /dev/nvme0n1 -o media",
        "corral export autoinstall lab.yaml --key id.pub --disk /dev/nvme0n1"
        " --gateway 192.168.1.1/24 --interface eno1 -o media",
        "corral export autoinstall lab.yaml --system debian --key id.pub --disk /dev/sda -o media",
    ),
)
def autoinstall(
    target: TARGET = "",
    *,
    output: OUTPUT,
    keys: KEY,
    disk: DISK,
    system: SYSTEM = "ubuntu",
    gateway: GATEWAY = "",
    dns: DNS = [],  # noqa: B006  # typer reads it, nobody changes it
    interface: INTERFACE = "",
    password_hash: HASH = "",
    locale: LOCALE = "en_US.UTF-8",
    keyboard: KEYBOARD = "us",
    timezone: TIMEZONE = "Etc/UTC",
    overwrite: OVERWRITE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """See ``_AUTOINSTALL``."""
    ui = Ui(as_json=as_json)
    if system not in ("ubuntu", "debian"):
        raise CorralError(Code.USAGE, f"--system {system}", hint="write ubuntu or debian")
    install = api.Install(
        system=system,
        keys=tuple(_text_of(name).strip() for name in keys),
        disk=disk,
        gateway=gateway,
        nameservers=tuple(dns),
        interface=interface,
        password=_text_of(password_hash).strip() if password_hash else "",
        locale=locale,
        keyboard=keyboard,
        timezone=timezone,
    )
    spec = declared(ui, target, named)
    done = api.export_autoinstall(spec, folder_of(output), install, overwrite=overwrite)
    ui.json(done.as_dict())
    ui.show(*(f"{done.folder}/{name}" for name in done.files))
    ui.note(f"an installation with these files erases {disk} without a question", "yellow")
    ui.show("next:", *(f"  {line}" for line in done.next))
    return Exit.GOOD


@app.command(
    "topology",
    epilog=examples(
        "ibnetdiscover > fabric.txt   # as root, on a node",
        "corral export topology dgx.yaml --from fabric.txt",
        "corral export topology dgx.yaml --from fabric.txt --plugin block --json",
    ),
)
def topology_(
    target: TARGET = "",
    *,
    listing: LISTING,
    plugin: PLUGIN = "tree",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Print the switches of an InfiniBand fabric for the cluster file.

    Nodes that share all their leaf switches are one leaf, so rail-optimised fabrics are read too.
    Exit status 1 when links of the nodes look odd: missing ones, or slower than the others.
    """
    ui = Ui(as_json=as_json)
    if plugin not in ("tree", "block"):
        raise CorralError(Code.USAGE, f"--plugin {plugin}", hint="write tree or block")
    spec = declared(ui, target, named)
    text = _text_of(listing)
    fabric = api.fabric_of(spec, text, plugin=plugin)
    ui.json({"text": fabric.text, "odd": list(fabric.odd)})
    ui.show(fabric.text.rstrip("\n"))
    for line in fabric.odd:
        ui.note(f"please check: {line}", "yellow")
    return Exit.NOT_GOOD if fabric.odd else Exit.GOOD


@app.command(
    epilog=examples(
        "corral export client lab.yaml -o lab.json",
        "corral export client --user alice -o alice.json",
    )
)
def client(
    target: TARGET = "",
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
    user: Annotated[
        str,
        typer.Option(
            "--user",
            metavar="NAME",
            help="User that the file is for. Default: any; each gives the account at the login.",
            show_default=False,
        ),
    ] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Write a client file, with which users log in (corral login --client FILE).

    It has no secret: the controller's address and host keys, and names of nodes, partitions and
    shared folders.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, target, named)
    text = ui.quietly(lambda: api.export_client(spec, user=user))
    try:
        write_output(output, text.encode(), new=not overwrite)
    except OSError as error:
        raise CorralError(
            Code.USAGE,
            f"{output} cannot be written: {error.strerror}",
            hint="--overwrite replaces a file that is there",
        ) from error
    ui.json({"file": str(output)})
    who = "" if user else "USER@ "
    ui.show(str(output), f"next, for its user: corral login {who}--client {output.name}")
    return Exit.GOOD


def _text_of(name: str) -> str:
    try:
        return Path(name).expanduser().read_text("utf-8", "replace")
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, cannot_read(name, error), hint="check the name"
        ) from error
