"""A plan as text, and the question whether to apply it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Final

from rich.text import Text

from corral.cli.terminal.text import clean, duration, labels, one_line
from corral.cli.terminal.ui import Ui
from corral.plan.model import MachineChange, NodeChange, Plan, Stage
from corral.plurals import plural
from corral.spec.impacts import Impact
from corral.spec.slurm.hostlist import fold
from corral.state.base import Roll

STYLES: Final = {
    Impact.NONE: "dim",
    Impact.RELOAD: "cyan",
    Impact.RESTART: "yellow",
    Impact.DRAIN: "magenta",
    Impact.REBOOT: "bold red",
    Impact.RECREATE: "bold red",
}
MACHINE_STYLES: Final = {"create": "green", "recreate": "bold red", "remove": "bold red"}
DEFERRED_SHOWN: Final = 6


def plan_lines(plan: Plan, *, diff: bool = False) -> list[Text]:
    """The plan for people; one line when there is nothing to do."""
    if plan.empty:
        which = "machines that answer" if plan.unreachable else "machines"
        text = f"{plan.cluster}: nothing to do, the {which} hold what the file declares"
        owed = [Text(), Text("leaving", "bold"), *_machines(plan.leaving)] if plan.leaving else []
        return [Text(text), *owed, *_unreachable(plan)]
    lines = [_head(plan)]
    if plan.machines:
        lines += [Text(), Text("machines", "bold"), *_machines(plan.machines)]
    for stage in plan.stages:
        lines += [Text(), *_stage(stage, diff=diff)]
    if plan.leaving:
        lines += [Text(), Text("leaving", "bold"), *_machines(plan.leaving)]
    if plan.deferred:
        lines += [Text(), Text("known once the machines exist", "bold"), *_deferred(plan)]
    return [*lines, *_unreachable(plan)]


def _unreachable(plan: Plan) -> list[Text]:
    """Nodes that are left as they are, folded over equal reasons."""
    reasons: dict[str, list[str]] = {}
    for node, reason in plan.unreachable.items():
        reasons.setdefault(reason.replace(node, "\0"), []).append(node)
    if not reasons:
        return []
    label = labels(map(fold, reasons.values()))
    lines = [
        Text(f"{label(fold(nodes))}{one_line(reason.replace(chr(0), fold(nodes)))}", "yellow")
        for reason, nodes in reasons.items()
    ]
    return [Text(), Text("left as they are", "bold"), *lines]


def _head(plan: Plan) -> Text:
    changes = sum(len(stage.changes) for stage in plan.stages)
    parts: list[str] = []
    if plan.machines:
        parts.append(plural(len(plan.machines), "machine"))
    if plan.stages:
        parts.append(f"{plural(changes, 'change')} in {plural(len(plan.stages), 'stage')}")
    if plan.leaving:
        parts.append(f"{plural(len(plan.leaving), 'machine')} leaving")
    text = Text.assemble((f"{plan.cluster}: ", "bold"), " and ".join(parts))
    if plan.stages:
        text.append("; worst impact: ").append(plan.impact.word, STYLES[plan.impact])
    return text


def _machines(changes: tuple[MachineChange, ...]) -> Iterator[Text]:
    """Machines that get the same are one line: their summaries differ in the name alone."""
    groups: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        key = (change.action, change.summary.replace(change.node, "\0"))
        groups.setdefault(key, []).append(change.node)
    label = labels(map(fold, groups.values()))
    for (action, summary), nodes in groups.items():
        folded = fold(nodes)
        yield Text.assemble(
            label(folded),
            (f"{action:<9}", MACHINE_STYLES.get(action, "cyan")),
            one_line(summary.replace("\0", folded)),
        )


def _stage(stage: Stage, *, diff: bool) -> Iterator[Text]:
    yield Text.assemble((stage.name, "bold"), f"  {one_line(stage.title)}")
    if stage.roll is not None:
        yield Text(f"  {_turns(stage.roll)}", "magenta")
    label = labels(fold(entry.nodes) for entry in stage.changes)
    for entry in stage.changes:
        impact = entry.change.impact
        line = Text(label(fold(entry.nodes)) + one_line(entry.change.summary))
        if impact is not Impact.NONE:
            line.append(f"  [{impact.word}]", STYLES[impact])
        yield line
        if entry.change.refuses:
            yield Text(f"    refused: {one_line(entry.change.refuses)}", "bold red")
        if diff:
            yield from _diff(entry)
    for gate in stage.gates:
        yield Text(f"{label(gate.node)}then wait: {one_line(gate.name)}", "dim")


def _turns(roll: Roll) -> str:
    many = plural(roll.at_once, "node")
    return (
        f"{many} at a time: drained, jobs get {duration(roll.patience)} to end, changed, checked, "
        f"resumed; {roll.controller} last"
    )


def _diff(entry: NodeChange) -> Iterator[Text]:
    change = entry.change
    name = change.resource
    lines = difflib.unified_diff(
        change.before.splitlines(), change.after.splitlines(), f"{name} (now)", name, lineterm=""
    )
    for line in lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[0], "dim")
        yield Text(f"      {clean(line)}", style)


def _deferred(plan: Plan) -> Iterator[Text]:
    for nodes, resources in plan.deferred:
        if not resources:
            yield Text(f"  {fold(nodes)}  what they hold is planned once they run")
            continue
        shown = ", ".join(one_line(resource) for resource in resources[:DEFERRED_SHOWN])
        more = len(resources) - DEFERRED_SHOWN
        rest = f" and {more} more" if more > 0 else ""
        yield Text(f"  {fold(nodes)}  {plural(len(resources), 'thing')}: {shown}{rest}")


STATE: Final = (
    "what was done stays done; the change that was under way is complete or is made again"
)
"""How things are when applying a plan is interrupted."""


class Approval:
    """Answers ``api.up`` and keeps the plans it was asked about.

    The second plan of one run is what the first one announced ("known once the machines exist"), so
    a person who approved making machines is asked again only when it would do more than that:
    when it disturbs something.

    Args:
        ui: where to show and ask.
        yes: answer yes without asking.

    Attributes:
        plans: those it was asked about.
        given: one of them was agreed to.
    """

    def __init__(self, ui: Ui, *, yes: bool) -> None:
        self._ui = ui
        self._yes = yes
        self._announced: set[str] = set()
        self.plans: list[dict[str, Any]] = []
        self.given = False

    def __call__(self, plan: Plan) -> bool:
        """Show the plan and ask.

        Raises:
            CorralError: USAGE, standard input is not a terminal.
        """
        with self._ui.paused():
            self._ui.show(*plan_lines(plan), "")
        state = STATE if self.plans else "nothing was changed"
        self.plans.append(plan.as_dict())
        known = self._yes or self._covers(plan)
        self._announced |= {name for nodes, _ in plan.deferred for name in nodes}
        agreed = self._ui.confirm("Do it?", yes=known, state=state)
        self.given = self.given or agreed
        return agreed

    def _covers(self, plan: Plan) -> bool:
        touched = {name for s in plan.stages for entry in s.changes for name in entry.nodes}
        return not plan.machines and bool(touched) and touched <= self._announced
