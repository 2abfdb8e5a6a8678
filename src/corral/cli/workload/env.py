"""``corral env``: what jobs of plain sbatch need on a group's nodes, as a file that they source."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import declared
from corral.cli.options import CLUSTER, JSON, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.roles.machine.nccl_plugin import PLUGINS
from corral.spec.providers import machines_on

_KINDS = {fabric: tuple(machines_on(fabric).values()) for fabric in PLUGINS}
_WITH_PLUGINS = ", ".join(
    f"{plugin.title} on {' and '.join(kind.title for kind in _KINDS[fabric])}"
    for fabric, plugin in PLUGINS.items()
)
_FIRST = next(kind for kinds in _KINDS.values() for kind in kinds)
_HELP = f"""\
Print the environment of a group's jobs, for plain sbatch.

It is what corral run gives each rank: the network interfaces, NCCL's adapters, the group's own
settings, {_WITH_PLUGINS}. Batch scripts source the text (". env.sh"); it is shell
and reads the node where it runs. Set your own values after that line.
"""

app = verb_app()


@app.command(
    help=_HELP,
    epilog=examples(
        "corral env dgx > dgx.sh",
        f"corral env {_FIRST.group} -c mega.yaml | corral ssh mega-controller -c mega "
        "'cat > /home/env.sh'",
    ),
)
def env(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="A group of nodes.", show_default=False)
    ],
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    ui = Ui(as_json=as_json)
    text = api.group_environment(declared(ui, named, administers=False), group)
    ui.json({"group": group, "text": text})
    ui.show(text.rstrip("\n"))
    return Exit.GOOD
