"""``corral down``: remove all that Corral made; what the user's machines get back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import typer
from rich.text import Text

from corral import api
from corral.api.lifecycle.machine_return import Returning
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, REHEARSE, TARGET, YES, examples, verb_app
from corral.cli.terminal.text import labels, one_line
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.plurals import plural
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from corral.spec.providers import OWNED
from corral.spec.sections.provider_setup import is_configured, section_of
from corral.spec.slurm.hostlist import fold

STYLES: Final = {"kept": "yellow", "left": "bold red", "new": "yellow", "none": "dim"}
VERBS: Final = {"kept": "stays: ", "left": "is left: ", "new": "was not there before: "}


def pending_lines(returning: Returning) -> Iterator[Text]:
    """What would be restored, and what prevents it."""
    yield from folded((m.node, word, text) for m in returning.machines for word, text in m.lines)
    for machine in returning.machines:
        if machine.error:
            yield Text(f"  {machine.node}  cannot be asked: {machine.error.message}", "bold red")
    if returning.jobs:
        yield Text(
            f"  {plural(len(returning.jobs), 'job')} (id, user, nodes) hold nodes:", "bold red"
        )
        yield from (Text(f"    {one_line(job)}") for job in returning.jobs)


def given_lines(gone: Iterable[str]) -> Iterator[Text]:
    """``node: word what`` as the use case reports it; other things were removed."""
    lines: list[tuple[str, str, str]] = []
    for thing in gone:
        node, colon, rest = thing.partition(": ")
        if colon:
            word, _, text = rest.partition(" ")
            lines.append((node, word, text))
        else:
            yield Text(f"removed {thing}")
    yield from folded(lines)


def folded(lines: Iterable[tuple[str, str, str]]) -> Iterator[Text]:
    """(node, word, text) with the nodes of equal lines together, in the order they come."""
    groups: dict[tuple[str, str], list[str]] = {}
    for node, word, text in lines:
        groups.setdefault((word, text), []).append(node)
    label = labels(map(fold, groups.values()))
    for (word, text), nodes in groups.items():
        yield Text(
            f"{label(fold(nodes))}{VERBS.get(word, '')}{one_line(text)}",
            STYLES.get(word, ""),
        )


DRY_RUN = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be restored; change nothing.")
]
FORCE = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Cancel jobs that run on your machines; pass over machines that do not answer.",
    ),
]
PURGE = Annotated[
    bool,
    typer.Option(
        "--purge",
        help="On your machines also remove home folders of users that Corral made, folders "
        "that are in use, and keep no dump of the accounting database.",
    ),
]

_HELP = f"""\
Remove all that Corral made for a cluster.

Machines that a provider made are removed with all that is on them: jobs, users' files,
accounting. Machines of provider {OWNED} are yours and are restored as they were before Corral:
packages, files, users, services and the host name, from a ledger that each machine keeps. It
is shown first, and refused while jobs are running.
"""

app = verb_app()


@app.command(
    help=_HELP,
    epilog=examples(
        "corral down laptop.yaml",
        "corral down lab.yaml --dry-run",
        "corral down -c lab-rehearsal --yes",
    ),
)
def down(  # noqa: PLR0917 - typer makes options of arguments
    target: TARGET = "",
    named: CLUSTER = "",
    yes: YES = False,
    dry_run: DRY_RUN = False,
    force: FORCE = False,
    purge: PURGE = False,
    rehearse: REHEARSE = False,
    as_json: JSON = False,
) -> int:
    ui = Ui(as_json=as_json)
    if not (target or named):
        # The only known cluster is a good guess for reading it, and none for removing it.
        raise CorralError(
            Code.USAGE,
            "no cluster given",
            hint=f"name it: corral down FILE, or one of: {', '.join(api.known_clusters()) or '-'}",
        )
    spec = cluster(ui, target, named, rehearse=rehearse)
    what, returning = _what(ui, spec)
    if dry_run:
        ui.json({"cluster": spec.name, "release": returning.as_dict()})
        ui.show(what.rpartition(" Do it?")[0])
        return Exit.GOOD
    if not ui.confirm(what, yes=yes):
        ui.json({"cluster": spec.name, "removed": []})
        ui.note("nothing was removed")
        return Exit.NOT_GOOD
    gone = ui.run(
        lambda emit: api.down(spec, emit, purge=purge, force=force),
        state="part of it may be removed already; the same command continues from there",
    )
    ui.json({"cluster": spec.name, "removed": list(gone)})
    ui.show(*given_lines(gone))
    kept = is_configured(spec) and any(": kept " in line for line in gone)
    left = "nothing else is left" if kept else "nothing is left"
    ui.show(f"{spec.name}: {left}" if gone else f"{spec.name}: there was nothing to remove")
    return Exit.GOOD


def _what(ui: Ui, spec: ClusterSpec) -> tuple[str, api.Returning]:
    """The question, after what is due to the user's machines has been shown."""
    made = [node.name for node in nodes_of(spec) if not node.group.capabilities.owned]
    section = section_of(spec)
    if section is not None and is_configured(spec):
        return f"{section.removal(fold(made), spec.name)} Do it?", api.Returning(())
    if made:
        what = f"Removes {fold(made)} of cluster {spec.name} and all that is on them. Do it?"
        return what, api.Returning(())
    returning = ui.run(lambda emit: api.pending_release(spec, emit), state="nothing was changed")
    ui.show(*pending_lines(returning), "")
    nodes = fold([m.node for m in returning.machines])
    return f"Restores {nodes} of cluster {spec.name} as they were before Corral. Do it?", returning
