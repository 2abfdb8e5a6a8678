"""``corral restore``: an archive of ``corral backup`` onto a cluster that is up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import declared
from corral.cli.options import CLUSTER, JSON, REHEARSE, TARGET, YES, examples, verb_app
from corral.cli.terminal.text import one_line
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.plurals import plural

ARCHIVE = Annotated[Path, typer.Argument(metavar="ARCHIVE", help="File that corral backup wrote.")]
IDENTITY = Annotated[
    list[Path] | None,
    typer.Option(
        "--identity",
        "-i",
        metavar="FILE",
        dir_okay=False,
        help="Private key of age or SSH that decrypts the archive. Can be given several times. "
        "Default: none; gpg uses its keyring.",
        show_default=False,
    ),
]
DRY_RUN = Annotated[
    bool,
    typer.Option("--dry-run", help="Check the archive, show what is done; change nothing."),
]
FORCE = Annotated[
    bool,
    typer.Option("--force", help="Restore though there are jobs now: they are lost."),
]

app = verb_app()
SHOWN_JOBS = 10


@app.command(
    epilog=examples(
        "corral restore lab.tar.zst.age lab.yaml -i key.txt --dry-run",
        "corral restore lab.tar.zst.age lab.yaml -i key.txt",
        "corral restore lab.tar.zst.gpg lab.yaml --yes",
    )
)
def restore(
    archive: ARCHIVE,
    target: TARGET = "",
    *,
    identity: IDENTITY = None,
    dry_run: DRY_RUN = False,
    force: FORCE = False,
    yes: YES = False,
    rehearse: REHEARSE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Put an archive of `corral backup` in place on a cluster that is up.

    For new machines: `corral up FILE --no-prove` first, then this. The archive is checked
    completely before anything changes. What is on the controller now is copied there first. Numbers
    of jobs go on after the highest restored one. After an interruption, run the same command again.
    """
    ui = Ui(as_json=as_json)
    identities = tuple(identity or ())
    spec = declared(ui, target, named, rehearse=rehearse)
    plan = ui.run(
        lambda emit: api.plan_restore(spec, archive, emit, identities=identities),
        state="nothing was changed",
    )
    ui.show(*(f"* {one_line(line)}" for line in plan.lines))
    if plan.jobs:
        ui.show(f"{plural(len(plan.jobs), 'job')} (id, user, state) would be lost:")
        ui.show(*(f"    {one_line(job)}" for job in plan.jobs[:SHOWN_JOBS]))
    if dry_run:
        ui.json({"plan": plan.as_dict(), "restored": None})
        return Exit.GOOD
    if (force or not plan.jobs) and not ui.confirm("Restore it?", yes=yes):
        ui.json({"plan": plan.as_dict(), "restored": None})
        ui.note("nothing was changed")
        return Exit.NOT_GOOD
    restored = ui.run(
        lambda emit: api.restore(spec, archive, plan, emit, identities=identities, force=force),
        state="the cluster may be without Slurm: run the same command again",
    )
    ui.json({"plan": plan.as_dict(), "restored": restored.as_dict()})
    ui.show(
        f"{spec.name}: restored; the next job is {restored.next_job}",
        "what was there before: /var/lib/corral/backup on the controller",
    )
    return Exit.GOOD
