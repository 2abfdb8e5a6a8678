"""``corral status``: how the cluster is now."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.operations.overview import Member, Status
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, TARGET, examples, verb_app
from corral.cli.terminal.text import clean, right, size, table
from corral.cli.terminal.ui import Ui
from corral.durations import clock
from corral.errors import Exit
from corral.inspect.services import Backup
from corral.plurals import plural

app = verb_app()
HEAD = ("node", "state", *right("GPUs", "CPUs", "memory", "load"), "services", "reason")


@app.command(epilog=examples("corral status", "corral status -c lab --json | jq .troubles"))
def status(target: TARGET = "", named: CLUSTER = "", as_json: JSON = False) -> int:
    """Show nodes, services and the queue, and what is wrong.

    Used and total are given as 1/2. Exit status 1 when a node takes no jobs or a service does not
    run, 3 when the controller cannot be reached. With a profile (corral login) it is what Slurm
    reports, and no machine is checked.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, target, named, administers=False)
    seen = ui.quietly(lambda: api.status(spec))
    ui.json(seen.as_dict())
    ui.show(*status_view(seen))
    if spec.services.mlflow:
        ui.show("MLflow: corral ui --mlflow opens its pages")
    return Exit.GOOD if seen.good else Exit.NOT_GOOD


def status_view(seen: Status) -> list[RenderableType]:
    """The head, the table of nodes, the queue, and what is wrong."""
    about = {"controller": seen.controller, "Slurm": seen.slurm}
    known = ", ".join(f"{name} {value}" for name, value in about.items() if value)
    usable = sum(node.usable for node in seen.nodes)
    head = Text.assemble((clean(seen.cluster), "bold"), f": {usable} of ")
    head.append(f"{plural(len(seen.nodes), 'node')} take jobs{clean(f'; {known}' * bool(known))}")
    queue = ", ".join(f"{count} {state}" for state, count in seen.jobs.items())
    shown: list[RenderableType] = [
        head,
        Text(),
        table(HEAD, [_row(node) for node in seen.nodes]),
        Text(),
        Text(f"jobs: {clean(queue) or 'none'}"),
    ]
    if seen.user:
        own = ", ".join(f"{count} {state}" for state, count in seen.own_jobs.items())
        shown.append(Text(f"jobs of {seen.user}: {clean(own) or 'none'}"))
    if seen.backup:
        shown.append(Text(f"backup: {clean(_backup(seen.backup))}"))
    for trouble in seen.troubles:
        shown.append(
            Text.assemble(("not good: ", "bold red"), clean(f"{trouble.subject} {trouble.message}"))
        )
        shown.append(Text(f"  hint: {clean(trouble.hint)}"))
    if seen.user:
        text = f"as Slurm reports it; machines were not checked: {seen.user} has no root there"
        shown.append(Text(text, "dim"))
    elif seen.good:
        shown.append(Text("all good", "green"))
    return shown


def _backup(backup: Backup) -> str:
    if backup.age is None:
        return "none yet"
    when = f"{clock(backup.age)} ago" if backup.age >= 0 else "in the future"
    return f"{when}, {size(backup.size)}, {backup.path}"


def _row(node: Member) -> tuple[str | Text, ...]:
    down = node.not_active
    running = len(node.services or {}) - len(down)
    services = Text(f"{', '.join(down)} down", "bold red") if down else Text(f"{running} running")
    return (
        node.node,
        Text(clean(node.state), "green" if node.usable else "bold red"),
        *_shares(node),
        "-" if node.load is None else f"{node.load:.1f}",
        services if node.services else "-",
        node.reason,
    )


def _shares(node: Member) -> tuple[str, str, str]:
    """Used and total GPUs, CPUs and memory."""
    record = node.record
    if record is None:
        return "-", "-", "-"
    memory = f"{record.memory_used / 1024:.1f}/{record.memory / 1024:.1f} GiB"
    return (
        _share(record.gpus_used, record.gpus),
        _share(record.cpus_used, record.cpus),
        memory if record.memory else "-",
    )


def _share(used: int | None, total: int) -> str:
    return f"{'?' if used is None else used}/{total}" if total else "-"
