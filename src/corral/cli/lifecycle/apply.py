"""``corral apply``: exactly what a plan contains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from corral import api
from corral.cli.cluster_choice import again, declared, remember
from corral.cli.lifecycle.planview import STATE, Approval, plan_lines
from corral.cli.options import CLUSTER, JSON, REHEARSE, TARGET, YES, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.plan.model import Plan

app = verb_app()


@app.command(
    epilog=examples(
        "corral plan lab.yaml --out plan.json && corral apply lab.yaml plan.json",
        "corral apply plan.json",
        "corral apply lab.yaml --yes",
    )
)
def apply(
    target: TARGET = "",
    plan_file: Annotated[
        str,
        typer.Argument(
            metavar="PLAN",
            help="Plan that `corral plan --out` wrote. Default: a new plan, made and shown first.",
            show_default=False,
        ),
    ] = "",
    *,
    yes: YES = False,
    rehearse: REHEARSE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Do exactly what a plan contains, and no more.

    FILE may be left out before PLAN, which ends in .json. A plan is refused (exit status 1) when
    the file or the machines have changed since it was made. A plan that makes machines ends when
    they run: plan and apply again for what they hold, or let `corral up` do both.
    """
    ui = Ui(as_json=as_json)
    if target.endswith(".json") and not plan_file:
        target, plan_file = "", target
    spec = declared(ui, target, named, rehearse=rehearse)
    if plan_file:
        plan = _read(Path(plan_file))
    else:
        plan = ui.run(lambda emit: api.plan(spec, emit), state="nothing was changed")
    if plan.empty:
        ui.json({"applied": True, "plan": plan.as_dict()})
        ui.show(*plan_lines(plan))
        return Exit.GOOD
    if not Approval(ui, yes=yes)(plan):
        ui.json({"applied": False, "plan": plan.as_dict()})
        ui.note("nothing was changed")
        return Exit.NOT_GOOD
    remember(spec, target, named, rehearse=rehearse)
    ui.run(lambda emit: api.apply(spec, plan, emit), state=STATE)
    ui.json({"applied": True, "plan": plan.as_dict()})
    where = again(target, named, rehearse=rehearse)
    if plan.machines:
        ui.show(f"the machines run; next, for what they hold: corral apply{where}")
    else:
        ui.show(f"applied; next: corral prove{where}")
    return Exit.GOOD


def _read(path: Path) -> Plan:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"plan {path} does not exist",
            hint="write one with: corral plan FILE --out PLAN",
        ) from error
    except (OSError, ValueError) as error:
        raise CorralError(
            Code.USAGE,
            f"{path} is not a plan: {error}",
            hint="write one with: corral plan FILE --out PLAN",
        ) from error
    if not isinstance(data, dict):
        raise CorralError(
            Code.USAGE, f"{path} is not a plan", hint="write one with: corral plan FILE --out PLAN"
        )
    return Plan.from_dict(cast("dict[str, Any]", data))
