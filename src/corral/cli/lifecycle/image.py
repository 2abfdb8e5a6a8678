"""``corral image``: the images that nodes in containers are made from."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, YES, examples, verb_app
from corral.cli.terminal.text import right, size, table
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.plurals import plural
from corral.spec.providers import CONTAINERS

_HELP = f"""\
List, build and remove node images; import container images.

{CONTAINERS.capitalize()} nodes are made from an image that Corral builds (Debian 13, or Ubuntu on
an Ubuntu machine that cannot have Debian), and builds again when what it is made from has changed.
"""

app = verb_app()


@app.callback(
    help=_HELP, epilog=examples("corral image list", "corral image build", "corral image rm")
)
def image() -> None:
    """See ``_HELP``."""


@app.command("list", epilog=examples("corral image list --json"))
def list_(as_json: JSON = False) -> int:
    """List the node images that are here, newest first."""
    ui = Ui(as_json=as_json)
    images = ui.quietly(api.images)
    ui.json({"images": list(images)})
    if not images:
        ui.show("no node image is here; next: corral image build")
        return Exit.GOOD
    rows = [
        (
            info["reference"],
            info["os"] or "-",
            size(info["size"]),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(info["created"])),
            ", ".join(info["used_by"]) or "-",
        )
        for info in images
    ]
    ui.show(table(("image", "system", *right("size"), "made", "used by"), rows))
    return Exit.GOOD


@app.command("build", epilog=examples("corral image build", "corral image build --again"))
def build(
    image: Annotated[
        str,
        typer.Argument(
            metavar="IMAGE",
            help="auto, or an image of yours that podman knows or can pull: Debian 13 or Ubuntu.",
        ),
    ] = "auto",
    again: Annotated[
        bool, typer.Option("--again", help="Build it even when it is here already.")
    ] = False,
    as_json: JSON = False,
) -> int:
    """Build the node image; does nothing when it is here already."""
    ui = Ui(as_json=as_json)
    reference = ui.run(
        lambda emit: api.build_image(image, emit, again=again), state="no image was made"
    )
    ui.json({"reference": reference})
    ui.show(f"{reference} is here")
    return Exit.GOOD


@app.command(
    "import",
    epilog=examples(
        "corral image import docker://REGISTRY/pytorch:26.04-py3 -c dgx",
        "corral image import docker://REGISTRY/team/train:7 --name train --login you",
    ),
)
def import_(  # noqa: PLR0917 - typer makes options of arguments
    image: Annotated[
        str,
        typer.Argument(
            metavar="docker://REGISTRY/NAME:TAG", help="Image to import.", show_default=False
        ),
    ],
    named: CLUSTER = "",
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME|PATH",
            help="The file below images/ of the first shared folder, or any path.",
            show_default=False,
        ),
    ] = "",
    login: Annotated[
        str,
        typer.Option(
            "--login",
            metavar="NAME",
            help="User of the registry; its key comes from CORRAL_REGISTRY_KEY or NGC_API_KEY, or "
            "the keyring. Default: with a key, the one that NVIDIA's NGC requires.",
            show_default=False,
        ),
    ] = "",
    http: Annotated[bool, typer.Option("--http", help="The registry speaks no TLS.")] = False,
    as_json: JSON = False,
) -> int:
    """Fetch a container image onto the cluster's shared storage, by Enroot and as a job.

    All nodes then start from one file instead of each fetching its own copy.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named)
    done = ui.run(
        lambda emit: api.import_image(spec, image, emit, name=name, login=login, http=http),
        state="no image was made",
    )
    ui.json(done.as_dict())
    ui.show(f"{done.path} is there, {size(done.size)}")
    ui.show(f"next: srun --container-image={done.path} ..., or corral run --container {done.path}")
    return Exit.GOOD


@app.command("rm", epilog=examples("corral image rm", "corral image rm localhost/corral-node:TAG"))
def remove(
    image: Annotated[
        str,
        typer.Argument(
            metavar="IMAGE",
            help="Image to remove. Default: all that no cluster uses.",
            show_default=False,
        ),
    ] = "",
    yes: YES = False,
    as_json: JSON = False,
) -> int:
    """Remove a node image, or all that no cluster uses."""
    ui = Ui(as_json=as_json)
    what = f"Remove {image}?" if image else "Remove all node images that no cluster uses?"
    if not ui.confirm(what, yes=yes):
        ui.json({"removed": []})
        ui.note("nothing was removed")
        return Exit.NOT_GOOD
    gone = ui.quietly(lambda: api.remove_images(image))
    ui.json({"removed": list(gone)})
    ui.show(
        *(f"removed {reference}" for reference in gone), f"{plural(len(gone), 'image')} removed"
    )
    return Exit.GOOD
