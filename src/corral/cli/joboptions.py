"""The options of ``corral run``: one per field of ``JobSpec``."""

from __future__ import annotations

from typing import Annotated

import typer

SCRIPT = Annotated[
    str,
    typer.Argument(
        metavar="SCRIPT",
        help="A file of this machine, or one on the cluster's shared storage.",
        show_default=False,
    ),
]
ARGS = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="Its arguments, after --.", show_default=False),
]
NODES = Annotated[int, typer.Option("--nodes", "-N", metavar="N", help="Nodes.")]
GPUS_PER_NODE = Annotated[
    int, typer.Option("--gpus-per-node", "-G", metavar="G", help="GPUs on each node.")
]
GPU_TYPE = Annotated[
    str,
    typer.Option("--gpu-type", metavar="TYPE", help="Left out: any type.", show_default=False),
]
RANKS_PER_NODE = Annotated[
    int | None,
    typer.Option("--ranks-per-node", metavar="R", help="Left out: one per GPU, else one."),
]
CPUS_PER_RANK = Annotated[
    int | None,
    typer.Option(
        "--cpus-per-rank", metavar="C", help="Left out: a GPU's fair share of its node, else 1."
    ),
]
MEM = Annotated[
    str,
    typer.Option("--mem", metavar="SIZE", help="Memory on each node: 16G.", show_default=False),
]
TIME = Annotated[
    str,
    typer.Option(
        "--time", "-t", metavar="TIME", help="Time limit: 30m, 12h, 2d.", show_default=False
    ),
]
PARTITION = Annotated[
    str,
    typer.Option(
        "--partition", "-p", metavar="NAME", help="Left out: the default.", show_default=False
    ),
]
NAME = Annotated[
    str,
    typer.Option("--name", metavar="NAME", help="Left out: the script's.", show_default=False),
]
ENV = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        "-e",
        metavar="KEY[=VALUE]",
        help="Environment of each rank; KEY alone takes its value from here.",
    ),
]
LAUNCHER = Annotated[
    str,
    typer.Option("--launcher", metavar="WORD", help="Who starts the ranks: auto, srun, torchrun."),
]
WORKDIR = Annotated[
    str,
    typer.Option(
        "--workdir", metavar="DIR", help="Left out: the job's own folder.", show_default=False
    ),
]
USER = Annotated[
    str,
    typer.Option(
        "--user", metavar="NAME", help="Left out: the cluster's first.", show_default=False
    ),
]
REQUEUE = Annotated[bool, typer.Option("--requeue", help="Start it again when a node fails.")]
DETACH = Annotated[bool, typer.Option("--detach", "-d", help="Submit it and return at once.")]
DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="Print the batch script; submit nothing.")]
