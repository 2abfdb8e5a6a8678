"""``corral shell``: a terminal on a node, with the resources of a job."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, INLINE, JSON, CommandAfterDashes, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.workload import run as job
from corral.cli.workload.session_options import given_fields, with_session_options

app = verb_app()


@app.command(
    cls=CommandAfterDashes,
    epilog=examples(
        "corral shell",
        "corral shell -G 2 --time 2h",
        "corral shell -N 2 -G 8 --container /shared/pytorch.sqsh",
        "corral shell -G 1 -- nvidia-smi",
    ),
)
@with_session_options(before="name")
def shell(
    ctx: typer.Context,
    *,
    nodes: job.NODES = None,
    gpus_per_node: Annotated[
        int | None,
        typer.Option(
            "--gpus-per-node",
            "-G",
            metavar="G",
            help="GPUs on each node. Default: 1 where the partition has some.",
            show_default=False,
        ),
    ] = None,
    ranks_per_node: job.RANKS_PER_NODE = None,
    cpus_per_rank: job.CPUS_PER_RANK = None,
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="NAME", help="Name of the job. Default: shell.", show_default=False
        ),
    ] = "",
    named: CLUSTER = "",
    as_json: JSON = False,
    **given: Any,
) -> int:
    """Open a terminal on a node, with GPUs and the other resources of a job.

    A login shell on the first node of the allocation, or the command after --; srun in it starts
    ranks on all of its nodes. Becomes ssh; its exit status is that of the shell or the command.
    exit releases the resources. --json prints the command line and runs nothing.
    """
    ui = Ui(as_json=as_json)
    fields = given_fields(
        given,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        ranks_per_node=ranks_per_node,
        cpus_per_rank=cpus_per_rank,
        name=name,
        command=ctx.meta.get(INLINE, ()),
    )
    spec = cluster(ui, named, administers=False, by_ssh="shell")
    return job.open_terminal(ui, lambda: api.shell_argv(spec, fields, gpu=True), job.SHELL_NOTE)
