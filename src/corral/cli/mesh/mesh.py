"""``corral mesh``: a cluster's tailnet, its links and its policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.mesh.tailnet import MeshNode, MeshStatus
from corral.api.mesh.training_cost import Predicted, predicted
from corral.cli.cluster_choice import cluster, declared
from corral.cli.options import (
    CLUSTER,
    JSON,
    TARGET,
    YES,
    examples,
    parameter_count,
    verb_app,
)
from corral.cli.terminal.text import clean, right, table
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.mesh.link import Link

app = verb_app()

NODES = ("node", "address", "state", "key expires", "takes part")
LINKS = (
    *("link", "path"),
    *right("latency", "throughput", "MTU"),
    *("gradients", "does training over it pay"),
)
TRAINING = (
    "link",
    *right("an exchange", "a step with DDP", "exchange every", "a step of local SGD or DiLoCo"),
)


@app.command(
    "status",
    epilog=examples(
        "corral mesh status rented.yaml",
        "corral mesh status -c rented --no-links",
        "corral mesh status -c rented --parameters 124M --step-ms 300",
    ),
)
def status(
    target: TARGET = "",
    named: CLUSTER = "",
    *,
    links: Annotated[
        bool, typer.Option("--links/--no-links", help="Measure the links: 3 seconds each.")
    ] = True,
    parameters: Annotated[
        str,
        typer.Option(
            metavar="NUMBER",
            help="Also predict what training a model of so many parameters takes over each link, "
            "such as 124M; with --step-ms.",
            show_default=False,
        ),
    ] = "",
    step_ms: Annotated[
        float,
        typer.Option(
            metavar="MS", help="Milliseconds of a step on one node alone.", show_default=False
        ),
    ] = 0.0,
    as_json: JSON = False,
) -> int:
    """Show who is in the tailnet, what expires, and how good the links are.

    Each link is measured by TCP, from the controller to all others first. "gradients" is how long
    two nodes need to add up those of a model of 124 million parameters. --parameters and --step-ms
    predict for yours what a step takes with DDP, and after how many steps an exchange of weights
    (local SGD, DiLoCo) takes a tenth of the time. Exit status 1 when a node
    is out, its key has expired or expires within 14 days, or a machine with the cluster's tag is
    not a node of it.
    """
    ui = Ui(as_json=as_json)
    model = _model(parameters, step_ms, links=links)
    spec = cluster(ui, target, named)
    seen = ui.run(lambda emit: api.mesh_status(spec, emit, links=links), state="nothing changed")
    training = predicted(seen.links, model, step_ms / 1e3) if model else []
    ui.json({**seen.as_dict(), "training": [each.as_dict() for each in training]})
    ui.show(*_view(seen), *_training(training, step_ms))
    return Exit.GOOD if seen.good else Exit.NOT_GOOD


def _model(parameters: str, step_ms: float, *, links: bool) -> int:
    """Parameters of the model to predict for, 0 for none."""
    if bool(parameters) != (step_ms > 0) or (parameters and not links):
        raise CorralError(
            Code.USAGE,
            "--parameters and --step-ms predict together, from measured links",
            hint="such as --parameters 124M --step-ms 300, without --no-links",
        )
    return parameter_count(parameters)


def _training(training: list[Predicted], step_ms: float) -> Iterator[RenderableType]:
    if not training:
        return
    yield Text()
    yield Text(
        f"predicted: a step of {step_ms:g} ms on each node, {training[0].size / 1e6:.3g} MB of "
        "gradients or weights"
    )
    rows = [
        (
            f"{each.source} to {each.target}",
            f"{each.exchange_s * 1e3:.0f} ms",
            f"{each.ddp_s * 1e3:.0f} ms",
            f"{each.inner}",
            f"{each.local_s * 1e3:.0f} ms",
        )
        for each in training
    ]
    yield table(TRAINING, rows)


def _view(seen: MeshStatus) -> Iterator[RenderableType]:
    yield Text(f"{clean(seen.server)}, {seen.tag}")
    if seen.asked:
        yield Text(clean(seen.asked), "yellow")
    yield Text()
    yield table(NODES, [_node(n) for n in seen.nodes])
    if seen.links:
        yield Text()
        yield table(LINKS, [_link(link) for link in seen.links])
    for line in seen.thin:
        yield Text(clean(line), "yellow")
    if seen.thin:
        yield Text("  hint: copy what jobs read to the nodes: corral data sync FOLDER")
    for node in seen.nodes:
        if node.problem:
            yield Text(f"{node.node}: {clean(node.problem)}", "bold red")
            yield Text(f"  hint: {clean(node.hint)}")
    for stray in seen.strays:
        name = clean(stray.hostname)
        yield Text(f"{name} ({stray.address}) has the tag but is not in the file", "bold red")
        yield Text("  hint: corral up FILE with the node left out takes it out; or remove it there")


def _node(node: MeshNode) -> tuple[str, ...]:
    expires = node.expires or ("never" if node.address else "")
    return (node.node, node.address, node.state or "none", expires, node.mode)


def _link(link: Link) -> tuple[str, ...]:
    name = f"{link.source} to {link.target}"
    path = f"{link.path} {link.via}".strip()
    if link.problem:
        return (name, path, "", "", "", "", f"not measured: {link.problem}")
    return (
        name,
        path,
        f"{link.rtt_ms:.1f} ms",
        f"{link.mbps:.0f} Mb/s",
        str(link.mtu or "-"),
        f"{link.exchange_s:.1f} s",
        link.verdict,
    )


@app.command(
    "policy",
    epilog=examples("corral mesh policy rented.yaml", "corral mesh policy rented.yaml --apply"),
)
def policy(
    target: TARGET = "",
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Add it to the policy of the control server.")
    ] = False,
    yes: YES = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Print the part of the access policy that the cluster needs, and on request add it.

    The policy is read first, what it lacks is added, nothing is taken out, and it is read again. A
    policy with comments is not changed: they would be lost.
    """
    ui = Ui(as_json=as_json)
    spec = declared(ui, target, named)
    part = ui.quietly(lambda: api.mesh_policy(spec))
    ui.show(part.text)
    if not apply:
        ui.json({"policy": json.loads(part.text), "applied": False})
        return Exit.GOOD
    if not ui.confirm("Add it to the policy of the entire tailnet?", yes=yes):
        ui.json({"policy": json.loads(part.text), "applied": False})
        return Exit.NOT_GOOD
    changed, outcome = ui.quietly(lambda: api.apply_mesh_policy(spec))
    ui.json({"policy": json.loads(part.text), "applied": changed, "message": outcome})
    ui.show(outcome)
    return Exit.GOOD


@app.callback(epilog=examples("corral mesh status rented.yaml", "corral mesh policy rented.yaml"))
def mesh() -> None:
    """Show a cluster's tailnet, its links and its policy."""
