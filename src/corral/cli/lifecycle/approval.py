"""Showing a plan and asking whether it shall be done."""

from __future__ import annotations

from typing import Any, Final

from corral.cli.lifecycle.planview import plan_lines
from corral.cli.terminal.ui import Ui
from corral.plan.model import Plan

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
