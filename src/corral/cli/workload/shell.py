"""``corral shell``: a terminal on a node, with the resources of a job."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, INLINE, JSON, CommandAfterDashes, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.workload import run as job

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
            help="GPUs on each node; left out: 1 where the partition has some.",
        ),
    ] = None,
    gpu_type: job.GPU_TYPE = "",
    ranks_per_node: job.RANKS_PER_NODE = None,
    cpus_per_rank: job.CPUS_PER_RANK = None,
    mem: job.MEM = "",
    time: job.TIME = "",
    partition: job.PARTITION = "",
    account: job.ACCOUNT = "",
    qos: job.QOS = "",
    nodelist: job.NODELIST = "",
    exclude: job.EXCLUDE = "",
    constraint: job.CONSTRAINT = "",
    licenses: job.LICENSES = "",
    exclusive: job.EXCLUSIVE = False,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Left out: shell.", show_default=False)
    ] = "",
    env: job.ENV = None,
    user: job.USER = "",
    container: job.CONTAINER = "",
    mount: job.MOUNT = None,
    sbatch: job.SBATCH = None,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Open a terminal on a node, with GPUs and the other resources of a job.

    A login shell on the first node of the allocation, or the command after --; srun in it starts
    ranks on all of its nodes. Becomes ssh; its exit status is that of the shell or the command.
    exit releases the resources. --json prints the command line and runs nothing.
    """
    given = dict(locals())
    del given["ctx"], given["named"], given["as_json"]
    ui = Ui(as_json=as_json)
    fields = job.asked_fields({**given, "command": ctx.meta.get(INLINE, ())})
    spec = cluster(ui, named, administers=False)
    return job.open_terminal(ui, lambda: api.shell_argv(spec, fields, gpu=True), job.SHELL_NOTE)
