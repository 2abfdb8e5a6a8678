"""``corral nodes``: what happened to nodes, and other machines in their place."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from corral import api
from corral.api.lifecycle.node_updates import NodeUpdate, SystemUpdate
from corral.api.operations.node_history import NodeHistory
from corral.cli.cluster_choice import cluster, declared
from corral.cli.lifecycle.planview import Approval
from corral.cli.options import CLUSTER, JSON, YES, examples, verb_app
from corral.cli.terminal.text import clean, table
from corral.cli.terminal.ui import Ui
from corral.doctor.lemons import DAYS, cause_of
from corral.durations import clock
from corral.errors import Code, CorralError, Exit
from corral.plurals import plural
from corral.slurm.records import Outage
from corral.spec.slurm.hostlist import fold

app = verb_app()
SHOWN = 5
"""Names of packages in a row."""
HEAD = ("node", "from", "for", "state", "cause", "reason", "by")
SOME = Annotated[
    str,
    typer.Argument(metavar="NODES", help="A hostlist. Default: all nodes.", show_default=False),
]


@app.callback(
    epilog=examples(
        "corral nodes history node2", "corral nodes replace node2", "corral nodes update"
    )
)
def nodes() -> None:
    """Show nodes' history, replace and update them."""


@app.command(
    "history", epilog=examples("corral nodes history node2", "corral nodes history --days 365")
)
def history(
    nodes: SOME = "",
    *,
    days: Annotated[int, typer.Option("--days", metavar="N", help="Days to look back.")] = DAYS,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Show when nodes took no jobs, why, and which are lemons.

    From the accounting database. A node that three different causes took out of service within the
    last 30 days is a lemon: its machine should be checked. A reason that begins with "planned" does
    not count.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named)
    seen = ui.quietly(lambda: api.node_history(spec, nodes, days=days))
    ui.json({"days": days, "nodes": [each.as_dict() for each in seen]})
    rows = [_row(outage) for each in seen for outage in each.outages]
    if rows:
        ui.show(table(HEAD, rows))
    else:
        ui.show(f"no outage of {plural(len(seen), 'node')} in {plural(days, 'day')}")
    for each in seen:
        if each.lemon:
            ui.note(lemon_line(each), "bold yellow")
    return Exit.GOOD


@app.command(
    "replace",
    epilog=examples(
        "corral nodes replace node2",
        "corral nodes replace node2 -c lab.yaml --host-key SHA256:... --yes",
    ),
)
def replace(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.", show_default=False)],
    *,
    host_key: Annotated[
        str,
        typer.Option(
            "--host-key",
            metavar="SHA256:...",
            help="Fingerprint of a host key of the new machine, as ssh-keygen -lf prints it there; "
            "any other is refused. Default: you are asked.",
            show_default=False,
        ),
    ] = "",
    yes: YES = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Take another machine into service under the name and address of a node.

    Run it once the new machine answers. Takes the node out of service: Slurm requeues the old
    machine's jobs, or ends those that may not be requeued. Pins the new host key in place of the
    old one, shows how the new machine differs from the old one, plans and applies as corral up
    does, and runs a job on it behind a reservation. Then the node takes jobs; if the job fails it
    stays drained. The node's history stays; causes from before no longer make it a lemon.
    """
    ui = Ui(as_json=as_json)
    spec = declared(ui, named)
    plan = ui.quietly(lambda: api.plan_replacement(spec, node))
    ui.show(*_replacement(plan))
    approval = Approval(ui, yes=yes)
    if not _is_meant(ui, plan, host_key, yes=yes):
        ui.json({**plan.as_dict(), "applied": False, "plans": []})
        ui.note("nothing was changed")
        return Exit.NOT_GOOD
    done = ui.run(
        lambda emit: api.replace_node(spec, plan, emit, approval),
        state=f"{node} is drained; the same command continues",
    )
    ui.json({**done.as_dict(), "plans": approval.plans})
    if done.differences:
        rows = [(each.what, clean(each.before), clean(each.after)) for each in done.differences]
        ui.show(table(("new machine", "before", "now"), rows))
    for job in plan.jobs:
        now = [each.state for each in done.jobs if each.label == job.label]
        after = now[0] if now else "no longer queued"
        ui.show(f"job {job.label} of {clean(job.user)}: was {job.state}, is {after}")
    if done.good:
        ui.show(f"{node}: the new machine is in service")
        return Exit.GOOD
    why = clean(done.fault) or "the plan was not applied"
    ui.note(f"{node} stays drained: {why}", "bold red")
    ui.note(f"next: corral doctor, then corral nodes replace {node}, which continues")
    return Exit.NOT_GOOD


@app.command(
    "update",
    epilog=examples(
        "corral nodes update",
        "corral nodes update gpu[0-63] --at-once 4 --yes",
    ),
)
def update(
    nodes: SOME = "",
    *,
    at_once: Annotated[
        int | None,
        typer.Option(
            "--at-once",
            metavar="N",
            min=1,
            help="Most nodes of the cluster that are out of service at once, those included that "
            "are already. Default: software.at_once.",
            show_default=False,
        ),
    ] = None,
    yes: YES = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Upgrade packages of nodes' systems, a few nodes at a time, with reboot and proof.

    Group by group, controllers last: each node is drained, its jobs end, apt upgrades what is not
    held (Slurm and the NVIDIA driver are), it reboots, and a job runs on all of it behind a
    reservation. Then it takes jobs, and the next one begins. The first node that fails stays
    drained and ends the update; the same command continues, also after a kill.
    """
    ui = Ui(as_json=as_json)
    spec = declared(ui, named)
    plan = ui.quietly(lambda: api.plan_update(spec, nodes, at_once or 0))
    updates = plan.pending
    for node, why in (*plan.silent, *plan.failed):
        ui.note(f"{node} is left out: {clean(why)}")
    left_out = Exit.NOT_GOOD if plan.silent or plan.failed else Exit.GOOD
    if updates:
        rows = [(each.node, each.group, _pending(each)) for each in updates]
        ui.show(table(("node", "group", "what is due"), rows))
    if not updates:
        ui.json(_updated(plan, []))
        ui.show(f"{plural(len(plan.nodes), 'node')}: nothing to upgrade, no reboot is due")
        return left_out
    question = f"Update {plural(len(updates), 'node')}, with at most {plan.at_once} out at once?"
    if not ui.confirm(question, yes=yes):
        ui.json(_updated(plan, []))
        ui.note("nothing was changed")
        return Exit.NOT_GOOD
    unproven = ui.run(
        lambda emit: api.update_nodes(spec, plan, emit),
        state="the same command continues",
    )
    ui.json(_updated(plan, [each.node for each in updates], unproven))
    proven = len(updates) - len(unproven)
    ui.show(f"{plural(proven, 'node')} updated and proven" if proven else "no node is proven")
    if unproven:
        ui.show(
            f"{fold(list(unproven))}: updated, and unproven while somebody else has it drained; "
            "the same command proves it once it is resumed"
        )
    return left_out


def _pending(update: NodeUpdate) -> str:
    packages = update.pending.packages
    shown = ", ".join(packages[:SHOWN]) + (", ..." if len(packages) > SHOWN else "")
    parts = [f"{plural(len(packages), 'package')} ({shown})"] if packages else []
    parts += ["reboot"] if update.reboots else []
    parts += ["continues an earlier update"] if update.pending.begun else []
    return "; ".join([*parts, "proof"])


def _updated(
    plan: SystemUpdate, done: list[str], unproven: Sequence[str] = ()
) -> dict[str, object]:
    return {
        "at_once": plan.at_once,
        "nodes": [each.as_dict() for each in plan.nodes],
        "updated": done,
        "unproven": list(unproven),
        "silent": dict(plan.silent),
        "failed": dict(plan.failed),
    }


def _replacement(plan: api.Replacement) -> list[str]:
    """What a replacement meets, a line each."""
    lines: list[str] = []
    if plan.shown:
        known = ", ".join(plan.known) or "none"
        lines.append(f"{plan.node}: known host key {known}; the machine shows {_shown(plan)}")
        if not plan.new_key:
            lines.append("the key is the known one: the same machine, or the old one's disk")
    if plan.slurm:
        lines.append(f"{plan.node} is {str(plan.slurm.state).lower()} in Slurm")
    lines += [f"job {job.label} of {clean(job.user)} is {job.state} on it" for job in plan.jobs]
    if plan.lost:
        lines.append(f"LOST with the old machine: {plan.lost}")
    return lines


def _shown(plan: api.Replacement) -> str:
    return ", ".join(plan.shown)


def _is_meant(ui: Ui, plan: api.Replacement, host_key: str, *, yes: bool) -> bool:
    """Whether the machine that answers is the new one.

    Raises:
        CorralError: USAGE, it is not the one of --host-key, or --yes alone for an unknown key.
    """
    if host_key and host_key not in plan.shown:
        raise CorralError(
            Code.USAGE,
            f"--host-key {host_key} is not what the machine shows: {_shown(plan) or 'nothing'}",
            node=plan.node,
            hint="compare with ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there; another "
            "machine may answer at its address",
        )
    if plan.new_key and yes and not host_key:
        raise CorralError(
            Code.USAGE,
            "--yes needs --host-key here: nobody compares the new host key",
            node=plan.node,
            hint="ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on the new machine prints it",
        )
    if plan.new_key and not host_key:
        ui.show("compare: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on the new machine")
        question = f"Is that the new machine, and may {plan.node}'s jobs end?"
    else:
        question = f"Is {plan.node}'s machine another one, and may its jobs end?"
    return ui.confirm(question, yes=yes)


def lemon_line(node: NodeHistory) -> str:
    """Why a node is called a lemon, in a sentence."""
    causes = "; ".join(node.causes)
    return f"{node.node} is a lemon: {len(node.causes)} causes in {DAYS} days ({clean(causes)})"


def _row(outage: Outage) -> tuple[str, ...]:
    cause = cause_of(outage)
    lasted = clock(int((outage.end or time.time()) - outage.start))
    return (
        outage.node,
        f"{datetime.fromtimestamp(outage.start):%Y-%m-%d %H:%M}",
        lasted if outage.end else f"{lasted}, goes on",
        outage.state,
        clean(cause.id) if cause else "",
        clean(outage.reason),
        outage.by,
    )
