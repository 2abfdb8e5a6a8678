"""``corral up``: plan, apply, prove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import declared, remember
from corral.cli.evidence.prove import proof_view
from corral.cli.lifecycle.planview import STATE, Approval
from corral.cli.options import CLUSTER, JSON, KEEP_GOING, REHEARSE, TARGET, YES, examples, verb_app
from corral.cli.terminal.ui import Ui, error_text
from corral.errors import Code, CorralError, Exit
from corral.spec.models import ClusterSpec

app = verb_app()
BUNDLE = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        metavar="KIT",
        dir_okay=False,
        help="Take node image, packages and wheels from this file of corral bundle, and "
        "nothing from a network. The cluster keeps to its image until corral down.",
        show_default=False,
    ),
]
SHA256 = Annotated[
    str,
    typer.Option(
        "--sha256",
        metavar="HEX",
        help="With --bundle: SHA-256 of the file, as corral bundle printed it. Another file is "
        "refused before it is unpacked. Default: not compared.",
        show_default=False,
    ),
]


@app.command(
    epilog=examples(
        "corral up laptop.yaml",
        "corral up lab.yaml --rehearse",
        "corral up lab.yaml --yes --json",
        "corral up dgx.yaml --keep-going",
        "corral up laptop.yaml --bundle kit.tar.zst --sha256 HEX",
    )
)
def up(
    target: TARGET = "",
    *,
    yes: YES = False,
    keep_going: KEEP_GOING = False,
    rehearse: REHEARSE = False,
    prove: Annotated[
        bool, typer.Option("--prove/--no-prove", help="Prove afterwards that it works.")
    ] = True,
    bundle: BUNDLE = None,
    sha256: SHA256 = "",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Make the cluster what the file declares, and prove it.

    Shows the plan and asks before it changes anything; without a terminal it needs --yes. Does
    nothing to what is right already, so it also resumes after a failure. Exit status 1
    when you answer no, when a check fails, or when nodes were left out.
    """
    ui = Ui(as_json=as_json)
    if sha256 and bundle is None:
        raise CorralError(
            Code.USAGE, "--sha256 needs a bundle", hint="name its file with --bundle KIT"
        )
    spec = declared(ui, target, named, rehearse=rehearse)
    if bundle is not None:
        _use(ui, spec, bundle, sha256)
    approval = Approval(ui, yes=yes)
    left_out = api.LeftOut(spec) if keep_going else None
    try:
        agreed = ui.run(lambda emit: api.up(spec, emit, approval, left_out=left_out), state=STATE)
    finally:
        if approval.given:
            remember(spec, target, named, rehearse=rehearse)
    reasons = left_out.reasons if left_out else {}
    if not agreed:
        ui.json({"applied": False, "plans": approval.plans, "left_out": reasons, "proof": None})
        ui.note("nothing was changed" if len(approval.plans) == 1 else "the rest was not done")
        return Exit.NOT_GOOD
    if not approval.plans:
        which = "machines that answer" if reasons else "machines"
        ui.note(f"{spec.name}: nothing to do, the {which} hold what the file declares")
    if not prove:
        ui.json({"applied": True, "plans": approval.plans, "left_out": reasons, "proof": None})
        return _without(ui, left_out) or Exit.GOOD
    proof = ui.run(
        lambda emit: api.prove(spec, emit, without=reasons),
        state="the cluster is up; it is not proven",
    )
    proved = proof.as_dict()
    ui.json({"applied": True, "plans": approval.plans, "left_out": reasons, "proof": proved})
    ui.show(*proof_view(proof))
    which = f" -c {spec.name}" if len(api.known_clusters()) > 1 else ""
    if proof.good:
        ui.show(f"next: corral run{which} SCRIPT, or corral status{which}")
    else:
        ui.show(f"next: see the hints above; corral status{which} shows the nodes")
    return _without(ui, left_out) or (Exit.GOOD if proof.good else Exit.NOT_GOOD)


def _use(ui: Ui, spec: ClusterSpec, bundle: Path, sha256: str) -> None:
    ui.run(
        lambda emit: api.use_bundle(spec, bundle, emit, sha256=sha256),
        state="the cluster was not changed",
    )


def _without(ui: Ui, left_out: api.LeftOut | None) -> Exit | None:
    """Name the nodes that were left out; None where there are none."""
    if left_out is None or left_out.error is None:
        return None
    ui.err.print(error_text(left_out.error), soft_wrap=True)
    return Exit.NOT_GOOD
