"""``corral backup``: what a cluster cannot make again, in one encrypted file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, REHEARSE, TARGET, examples, verb_app
from corral.cli.terminal.text import size
from corral.cli.terminal.ui import Ui
from corral.errors import Exit

OUTPUT = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="ARCHIVE",
        dir_okay=False,
        help="The file to write. Default: NAME-DATE-TIME.tar.zst.age (or .gpg) in this folder.",
        show_default=False,
    ),
]
TO = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="KEY",
        help="Encrypt by age for this public key (age1..., ssh-ed25519 ...) or for those in "
        "this file. Can be given several times.",
        show_default=False,
    ),
]
GPG = Annotated[
    list[str] | None,
    typer.Option(
        "--gpg",
        metavar="KEY",
        help="Encrypt by gpg for this key of your keyring. Can be given several times.",
        show_default=False,
    ),
]
UNENCRYPTED = Annotated[
    bool,
    typer.Option(
        "--unencrypted",
        help="Do not encrypt: who reads the archive has all keys of the cluster.",
    ),
]
ARTIFACTS = Annotated[
    bool,
    typer.Option(
        "--artifacts",
        help="Save the files of MLflow's runs too, not their names and sizes alone.",
    ),
]

app = verb_app()


@app.command(
    epilog=examples(
        "corral backup lab.yaml --to age1...",
        "corral backup lab.yaml --to ~/.ssh/id_ed25519.pub -o /srv/backup/lab.tar.zst.age",
        "corral backup lab.yaml --gpg admin@example.org",
    )
)
def backup(
    target: TARGET = "",
    *,
    output: OUTPUT = None,
    to: TO = None,
    gpg: GPG = None,
    unencrypted: UNENCRYPTED = False,
    artifacts: ARTIFACTS = False,
    rehearse: REHEARSE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Save accounting, Slurm's state, keys and MLflow's runs in one encrypted file.

    Jobs and users go on meanwhile. The archive is encrypted on this machine, in pipes; its plain
    text is on no disk. It also holds slurm.conf, the cluster file, and a manifest with versions
    and the SHA-256 of each part. Users' files and shared storage are not in it.
    """
    ui = Ui(as_json=as_json)
    encryption = api.encryption_of(to or (), gpg or (), unencrypted=unencrypted)
    spec = cluster(ui, target, named, rehearse=rehearse)
    path = output or Path(api.archive_name(spec, encryption))
    made = ui.run(
        lambda emit: api.backup(spec, path, encryption, emit, artifacts=artifacts),
        state="no archive was written",
    )
    ui.json(made.as_dict())
    ui.show(f"{made.path}: {size(made.size)}, from {size(made.content)}")
    if not made.encrypted:
        ui.note("not encrypted: it holds all keys of the cluster", "bold yellow")
    ui.show("next, to see that it can be read: corral restore ARCHIVE FILE --dry-run")
    return Exit.GOOD
